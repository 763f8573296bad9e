package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// TestLife: register, assignment, work, drain.
func TestLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("qwen3_moe"))
	o := b.options("w0")
	o.ArenaDir = t.TempDir()
	end := b.start(o)
	first := b.awaitState("w0", transport.StateIdle)
	if first.Identity != b.identity(kernels.Q8, 2) || first.PID != os.Getpid() || first.Threads != 2 || first.Instance == "" || first.Kernels == "" ||
		first.Capacity <= 0 || first.RSSAnon <= 0 || first.ExpertParts != 0 {
		t.Errorf("first beat %+v", first)
	}
	ref := b.reference(kernels.Q8, 2)

	_, err := b.ask("w0", ref.work(t, 1, 1, 0, 3))
	remote(t, "work without an assignment", err, transport.CodeNotReady)

	layers := []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 3, 4}}, {Layer: 2, Parts: []uint32{1, 15}}}
	if err := b.assign("w0", 5, 2, b.identity(kernels.Q8, 2), layers); err != nil {
		t.Fatal(err)
	}
	ready := b.await("ready with residency", "w0", func(b *transport.Beat) bool { return b.State == transport.StateReady && len(b.Resident) > 0 })
	shapes := ref.Plan().Shapes
	bytes := int64(2*shapes[0].Bytes() + 3*shapes[1].Bytes())
	if ready.Epoch != 5 || ready.Term != 2 || ready.Coordinator != "first" || ready.LoadedBytes != bytes || ready.TotalBytes != bytes ||
		ready.ExpertParts != 5 || ready.Arena.PackedBytes != bytes || ready.Arena.Files != 3 {
		t.Errorf("ready: %+v, the expert parts have %d bytes", ready, bytes)
	}
	if got, want := fmt.Sprint(ready.Resident), fmt.Sprint([]transport.LayerBitmap{{Layer: 0, Bits: []byte{0x19, 0}}, {Layer: 2, Bits: []byte{2, 0x80}}}); got != want {
		t.Errorf("resident %s, want %s", got, want)
	}
	folder := ArenaFolder(o.ArenaDir, first.Identity.ModelDigest, kernels.Q8, 2, "w0")
	if files, _ := filepath.Glob(filepath.Join(folder, "*.arena")); len(files) != 3 {
		t.Errorf("files in %s: %v", folder, files)
	}

	for _, w := range []*transport.Work{ref.work(t, 5, 2, 0, 0, 3), ref.work(t, 5, 2, 2, 15), ref.work(t, 5, 3, 0, 4)} {
		r, err := b.ask("w0", w)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(r.Sum) != ref.sum(t, w) {
			t.Errorf("layer %d, expert parts %v: the sums differ", w.Layer, w.Parts)
		}
	}
	for what, c := range map[string]struct {
		code transport.ErrorCode
		w    *transport.Work
	}{
		"stale term":  {transport.CodeStaleTerm, ref.work(t, 5, 1, 0, 0)},
		"older epoch": {transport.CodeWrongEpoch, ref.work(t, 4, 2, 0, 0)},
		"later epoch": {transport.CodeWrongEpoch, ref.work(t, 6, 2, 0, 0)},
		"not owned":   {transport.CodeNotOwned, ref.work(t, 5, 2, 0, 1)},
	} {
		_, err := b.ask("w0", c.w)
		remote(t, what, err, c.code)
	}

	if err := b.requester.Drain(t.Context(), "w0"); err != nil {
		t.Fatal(err)
	}
	b.awaitState("w0", transport.StateDraining)
	if err := end(); err != nil {
		t.Errorf("Run after Drain: %v", err)
	}
}

// TestReassignment: a later epoch is served beside the present one until it is active; earlier ones are refused, the same again changes
// nothing, and what both own is packed once.
func TestReassignment(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	b.start(b.options("w0"))
	b.awaitState("w0", transport.StateIdle)
	identity, ref := b.identity(kernels.Q8, 2), b.reference(kernels.Q8, 2)
	one := []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 1}}}
	two := []transport.LayerParts{{Layer: 0, Parts: []uint32{1, 2}}, {Layer: 1, Parts: []uint32{7}}}
	ask := func(what string, w *transport.Work) {
		t.Helper()
		r, err := b.ask("w0", w)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if fmt.Sprint(r.Sum) != ref.sum(t, w) {
			t.Errorf("%s: the sums differ", what)
		}
	}
	serves := func(epochs ...uint64) *transport.Beat {
		t.Helper()
		return b.await(fmt.Sprint("serving ", epochs), "w0", func(b *transport.Beat) bool { return slices.Equal(b.Serves, epochs) })
	}
	if err := b.assign("w0", 1, 1, identity, one); err != nil {
		t.Fatal(err)
	}
	first := serves(1)
	if err := b.assign("w0", 1, 1, identity, one); err != nil {
		t.Errorf("the same again: %v", err)
	}
	remote(t, "other parts in the same epoch", b.assign("w0", 1, 1, identity, two), transport.CodeWrongEpoch)
	if err := b.assign("w0", 2, 1, identity, two); err != nil {
		t.Fatal(err)
	}
	both := serves(1, 2)
	shapes := ref.Plan().Shapes
	if both.ExpertParts != 3 || both.State != transport.StateReady || both.Epoch != 2 ||
		both.Arena.PackedBytes-first.Arena.PackedBytes != int64(shapes[0].Bytes()+shapes[1].Bytes()) {
		t.Errorf("in epoch 2: %+v, before: %+v", both, first)
	}
	remote(t, "earlier epoch", b.assign("w0", 1, 1, identity, one), transport.CodeWrongEpoch)
	remote(t, "earlier term", b.assign("w0", 9, 0, identity, one), transport.CodeStaleTerm)
	ask("epoch 2", ref.work(t, 2, 1, 0, 1, 2))
	ask("epoch 1", ref.work(t, 1, 1, 0, 0, 1))
	_, err := b.ask("w0", ref.work(t, 2, 1, 0, 0))
	remote(t, "what only epoch 1 owns", err, transport.CodeNotOwned)
	_, err = b.ask("w0", ref.work(t, 1, 1, 1, 7))
	remote(t, "what only epoch 2 owns", err, transport.CodeNotOwned)

	b.activate(2, 1)
	serves(2)
	gone := b.await("the room given back", "w0", func(b *transport.Beat) bool { return b.Arena.Bytes == b.TotalBytes })
	if gone.Arena.PackedBytes != both.Arena.PackedBytes {
		t.Errorf("after activation: %+v", gone.Arena)
	}
	_, err = b.ask("w0", ref.work(t, 1, 1, 0, 1))
	remote(t, "work of epoch 1", err, transport.CodeWrongEpoch)
	ask("epoch 2", ref.work(t, 2, 1, 0, 1, 2))
	// A beat that is made while the last work ends may have some of its counters, and the work leaves the queue after its answer.
	last := b.await("layer times", "w0", func(b *transport.Beat) bool {
		return len(b.LayerTimes) == 1 && b.LayerTimes[0].Count == 3 && b.ComputeTime == b.LayerTimes[0].Nanoseconds && b.Queue == 0
	})
	if l := last.LayerTimes[0]; l.Layer != 0 || l.Nanoseconds <= 0 || last.ComputedBytes != int64(3*(shapes[0].Bytes()+shapes[1].Bytes())) {
		t.Errorf("times: %+v, %d bytes in %d ns", l, last.ComputedBytes, last.ComputeTime)
	}
}

// TestFailedEpoch: a new epoch that can't be loaded is said, and the present one goes on.
func TestFailedEpoch(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	b.start(b.options("w0"))
	b.awaitState("w0", transport.StateIdle)
	identity, ref := b.identity(kernels.Q8, 2), b.reference(kernels.Q8, 2)
	if err := b.assign("w0", 1, 1, identity, []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 1}}}); err != nil {
		t.Fatal(err)
	}
	b.awaitState("w0", transport.StateReady)
	w := ref.work(t, 1, 1, 0, 0, 1)
	want := ref.sum(t, w)
	if err := os.Truncate(filepath.Join(b.model.Dir(), "model.safetensors"), 20000); err != nil {
		t.Fatal(err)
	}
	if err := b.assign("w0", 2, 1, identity, []transport.LayerParts{{Layer: 0, Parts: []uint32{1}}, {Layer: 2, Parts: []uint32{5}}}); err != nil {
		t.Fatal(err)
	}
	failed := b.awaitState("w0", transport.StateFailed)
	if failed.Epoch != 2 || !slices.Equal(failed.Serves, []uint64{1}) || !strings.Contains(failed.Error, "became shorter") {
		t.Errorf("failed: %+v", failed)
	}
	r, err := b.ask("w0", w)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(r.Sum) != want {
		t.Error("the sums differ after the failure")
	}
	_, err = b.ask("w0", ref.work(t, 2, 1, 0, 1))
	remote(t, "work of the failed epoch", err, transport.CodeNotReady)
	// Another epoch that needs nothing new.
	if err := b.assign("w0", 3, 1, identity, []transport.LayerParts{{Layer: 0, Parts: []uint32{1}}}); err != nil {
		t.Fatal(err)
	}
	if ready := b.awaitState("w0", transport.StateReady); !slices.Equal(ready.Serves, []uint64{1, 3}) || ready.Error != "" {
		t.Errorf("ready: %+v", ready)
	}
}

// TestQuickReassignments: assignments that overtake each other end with the last one.
func TestQuickReassignments(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	o := b.options("w0")
	o.ArenaDir = t.TempDir()
	b.start(o)
	b.awaitState("w0", transport.StateIdle)
	ref := b.reference(kernels.Q8, 2)
	for epoch := range uint64(8) {
		layers := []transport.LayerParts{{Layer: int(epoch % 3), Parts: []uint32{uint32(epoch), uint32(epoch + 1), 12}}}
		if err := b.assign("w0", epoch, 1, b.identity(kernels.Q8, 2), layers); err != nil {
			t.Fatal(err)
		}
	}
	b.await("ready in the last epoch", "w0", func(b *transport.Beat) bool { return b.State == transport.StateReady && b.Epoch == 7 })
	w := ref.work(t, 7, 1, 1, 7, 8, 12)
	r, err := b.ask("w0", w)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(r.Sum) != ref.sum(t, w) {
		t.Error("the sums differ")
	}
}

// TestHandshake: whatever differs is named with both values.
func TestHandshake(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	b.start(b.options("w0"))
	b.awaitState("w0", transport.StateIdle)
	for want, change := range map[string]func(*transport.Identity){
		"parts: coordinator 3, worker w0 2":                    func(i *transport.Identity) { i.Parts = 3 },
		"format: coordinator bf16, worker w0 q8":               func(i *transport.Identity) { i.Format = "bf16" },
		"layout version: coordinator 77, worker w0 ":           func(i *transport.Identity) { i.Layout = 77 },
		"model digest: coordinator " + strings.Repeat("0", 64): func(i *transport.Identity) { i.ModelDigest = strings.Repeat("0", 64) },
	} {
		identity := b.identity(kernels.Q8, 2)
		change(&identity)
		if got := remote(t, want, b.assign("w0", 1, 1, identity, nil), transport.CodeRefused); !strings.Contains(got, want) {
			t.Errorf("message %q, want %q in it", got, want)
		}
	}
	if got := remote(t, "a layer too many", b.assign("w0", 1, 1, b.identity(kernels.Q8, 2), []transport.LayerParts{{Layer: 3}}), transport.CodeMalformed); !strings.Contains(got, "layer 3") {
		t.Errorf("message %q", got)
	}
	if beat := b.awaitState("w0", transport.StateIdle); beat.Coordinator != "" {
		t.Errorf("after refusals: %+v", beat)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), b.options("w0")) }()
	beat := b.awaitState("w0", transport.StateIdle)
	if err := b.requester.Refuse(t.Context(), "w0", beat.Instance, &transport.Refuse{Reason: "another process has this id"}); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if err := <-done; !errors.As(err, &refused) || refused.Reason != "another process has this id" || refused.Worker != "w0" {
		t.Errorf("error %v", err)
	}
}

// TestParentEnds: the end of the pipe ends the worker, in the middle of loading too.
func TestParentEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	for _, busy := range []bool{false, true} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		o := b.options(fmt.Sprint("busy-", busy))
		o.ParentPipe = read
		done := make(chan error, 1)
		go func() { done <- Run(t.Context(), o) }()
		b.awaitState(o.ID, transport.StateIdle)
		if busy {
			if err := b.assign(o.ID, 1, 1, b.identity(kernels.Q8, 2), shard.Whole(b.model.Config(), 2)); err != nil {
				t.Fatal(err)
			}
		}
		write.Close()
		if err := <-done; err != nil {
			t.Errorf("busy %v: %v", busy, err)
		}
	}
}

// TestParentEndsBeforeNATS: a worker that still waits for a connection ends as well.
func TestParentEndsBeforeNATS(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o := b.options("w0")
	o.Connect.URL, o.ParentPipe = "nats://127.0.0.1:1", read
	write.Close()
	if err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// TestOutlivesCoordinator: when its coordinator falls silent, a worker is free again and keeps its shards for the next one.
func TestOutlivesCoordinator(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	b.start(b.options("w0"))
	b.awaitState("w0", transport.StateIdle)
	layers := []transport.LayerParts{{Layer: 1, Parts: []uint32{0, 1, 9}}}
	if err := b.assign("w0", 40, 7, b.identity(kernels.Q8, 2), layers); err != nil {
		t.Fatal(err)
	}
	packed := b.awaitState("w0", transport.StateReady).Arena.PackedBytes

	second := b.coordinate("second")
	got := remote(t, "a second coordinator", second.assign("w0", 1, 7, b.identity(kernels.Q8, 2), layers), transport.CodeRefused)
	if !strings.Contains(got, "works for coordinator first") {
		t.Errorf("message %q", got)
	}
	b.silent()
	free := second.awaitState("w0", transport.StateIdle)
	if free.Coordinator != "" || free.Epoch != 0 || free.ExpertParts != 3 {
		t.Errorf("free again: %+v", free)
	}
	// The new coordinator begins with low numbers.
	if err := second.assign("w0", 1, 1, b.identity(kernels.Q8, 2), layers); err != nil {
		t.Fatal(err)
	}
	ready := second.await("an answer to the assignment", "w0", func(b *transport.Beat) bool { return b.Coordinator == "second" })
	if ready.State != transport.StateReady || ready.Arena.PackedBytes != packed || ready.Epoch != 1 {
		t.Errorf("taken over: %+v, packed before: %d", ready, packed)
	}
	ref := b.reference(kernels.Q8, 2)
	w := ref.work(t, 1, 1, 1, 0, 9)
	r, err := second.ask("w0", w)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(r.Sum) != ref.sum(t, w) {
		t.Error("the sums differ for the second coordinator")
	}
}

// TestFailedLoad: what went wrong is in the beats, the worker stays and takes a better assignment.
func TestFailedLoad(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	o := b.options("w0")
	o.Format = kernels.F32
	b.start(o)
	b.awaitState("w0", transport.StateIdle)
	identity := b.identity(kernels.F32, 2)
	weights := filepath.Join(b.model.Dir(), "model.safetensors")
	info, err := os.Stat(weights)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(weights, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	if err := b.assign("w0", 1, 1, identity, []transport.LayerParts{{Layer: 2, Parts: []uint32{0, 1}}}); err != nil {
		t.Fatal(err)
	}
	failed := b.awaitState("w0", transport.StateFailed)
	if !strings.Contains(failed.Error, "became shorter") || !strings.Contains(failed.Error, "layer 2") {
		t.Errorf("error %q", failed.Error)
	}
	if err := b.assign("w0", 2, 1, identity, []transport.LayerParts{{Layer: 0, Parts: []uint32{0, 1}}}); err != nil {
		t.Fatal(err)
	}
	if ready := b.awaitState("w0", transport.StateReady); ready.Error != "" {
		t.Errorf("ready with error %q", ready.Error)
	}
}

// TestStartErrors: what a person got wrong is named before anything is waited for.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	for want, change := range map[string]func(*Options){
		"--model":            func(o *Options) { o.ModelDir = "" },
		"no such file":       func(o *Options) { o.ModelDir = "/nowhere" },
		"--format":           func(o *Options) { o.Format = 0 },
		"at most 3 parts":    func(o *Options) { o.Parts = 4 },
		`id "a b"`:           func(o *Options) { o.ID = "a b" },
		`cluster name "x.y"`: func(o *Options) { o.Cluster = "x.y" },
		"--threads -1":       func(o *Options) { o.Threads = -1 },
		"valid are 0 to 1":   func(o *Options) { o.Index, o.PerNode = 2, 2 },
		"node 4711":          func(o *Options) { o.Node = 4711 },
	} {
		o := b.options("w0")
		change(&o)
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// TestLockedFolder: a folder that another process holds is an error of packing, which names that process; a worker takes anonymous
// memory instead and says so.
func TestLockedFolder(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	o := b.options("w0")
	o.ArenaDir = t.TempDir()
	holder, err := arena.OpenStore(arena.Options{Dir: ArenaFolder(o.ArenaDir, b.identity(o.Format, o.Parts).ModelDigest, o.Format, o.Parts, o.ID)})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	layers := shard.Whole(b.model.Config(), 2)
	if _, err := Pack(t.Context(), o, layers, false, nil); !errors.Is(err, arena.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("error %v", err)
	}
	b.start(o)
	b.awaitState("w0", transport.StateIdle)
	if err := b.assign("w0", 1, 1, b.identity(kernels.Q8, 2), layers); err != nil {
		t.Fatal(err)
	}
	ready := b.awaitState("w0", transport.StateReady)
	if ready.Arena.Files != 0 || ready.Arena.Fallbacks != 6 || !strings.Contains(strings.Join(ready.Notes, "; "), "all 6 arenas lie in anonymous memory") {
		t.Errorf("ready: %+v, notes %q", ready.Arena, ready.Notes)
	}
}

// TestPack: packing ahead makes the worker's own load pack nothing, and --verify finds and mends damage.
func TestPack(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	o := b.options("w0")
	layers := shard.Whole(b.model.Config(), 2)
	if _, err := Pack(t.Context(), o, layers, false, nil); err == nil || !strings.Contains(err.Error(), "--arena-dir") {
		t.Errorf("without a folder: %v", err)
	}
	o.ArenaDir = t.TempDir()
	report, err := Pack(t.Context(), o, layers, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if report.Experts != 3*8*2 || report.Arena.PackedBytes != report.Arena.Bytes || report.Arena.Bytes == 0 || report.Damaged != 0 {
		t.Errorf("report %+v", report)
	}
	files, _ := filepath.Glob(filepath.Join(report.Folder, "*.arena"))
	if len(files) != 6 {
		t.Fatalf("files %v", files)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{1, 2, 3, 4}, 2<<20+100); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if report, err = Pack(t.Context(), o, layers, true, nil); err != nil || report.Damaged != 1 || report.Arena.VerifiedSlots != 47 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	b.start(o)
	b.awaitState("w0", transport.StateIdle)
	if err := b.assign("w0", 1, 1, b.identity(kernels.Q8, 2), layers); err != nil {
		t.Fatal(err)
	}
	if ready := b.awaitState("w0", transport.StateReady); ready.Arena.PackedBytes != 0 || ready.Arena.ReusedBytes != report.Arena.Bytes {
		t.Errorf("after packing ahead: %+v", ready.Arena)
	}
}
