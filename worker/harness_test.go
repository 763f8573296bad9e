package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// patience bounds a failing test only.
const patience = 3 * time.Minute

// bench is a NATS server, a model, and a hand-made coordinator.
type bench struct {
	t      *testing.T
	server *transport.Server
	model  *checkpoint.Checkpoint
	*coordinator
}

func newBench(t *testing.T, s synth.Spec) *bench {
	t.Helper()
	server, err := transport.StartServer(transport.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), "model")
	if err := synth.Write(dir, s, nil); err != nil {
		t.Fatal(err)
	}
	model, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	b := &bench{t: t, server: server, model: model}
	b.coordinator = b.coordinate("first")
	return b
}

// identity is what the coordinator has for workers of the given format and parts.
func (b *bench) identity(f kernels.Format, parts int) transport.Identity {
	b.t.Helper()
	digest, err := b.model.Digest()
	if err != nil {
		b.t.Fatal(err)
	}
	return transport.Identity{
		Protocol: transport.ProtocolVersion, Build: "test", ModelDigest: digest, Format: f.String(), Parts: parts, Layout: kernels.LayoutVersion,
	}
}

// options are those of a worker of this bench, in anonymous memory.
func (b *bench) options(id string) Options {
	return Options{
		ID: id, Connect: transport.ConnectOptions{URL: b.server.URL(), Token: b.server.Token()}, ModelDir: b.model.Dir(),
		Format: kernels.Q8, Parts: 2, Node: -1, Threads: 2, Log: b.t.Logf, Version: "test",
	}
}

// start runs a worker until the test ends or end is called, which gives what Run returned.
func (b *bench) start(o Options) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	var once sync.Once
	var result error
	end = func() error {
		once.Do(func() {
			cancel()
			select {
			case result = <-done:
			case <-time.After(patience):
				result = errors.New("the worker does not end")
			}
		})
		return result
	}
	b.t.Cleanup(func() { end() })
	return end
}

// coordinator is a coordinator's end of the wire.
type coordinator struct {
	t         *testing.T
	instance  string
	requester *transport.Requester
	beats     chan *transport.Beat
	silent    func() // ends its own beats and its connection
	active    atomic.Pointer[transport.CoordinatorBeat]
}

func (b *bench) coordinate(instance string) *coordinator {
	b.t.Helper()
	conn, err := transport.Connect(context.Background(), transport.ConnectOptions{Server: b.server})
	if err != nil {
		b.t.Fatal(err)
	}
	c := &coordinator{t: b.t, instance: instance, beats: make(chan *transport.Beat, 1000)}
	if c.requester, err = transport.NewRequester(conn, transport.DefaultCluster); err != nil {
		b.t.Fatal(err)
	}
	unsubscribe, err := c.requester.SubscribeBeats(func(beat *transport.Beat) { c.beats <- beat })
	if err != nil {
		b.t.Fatal(err)
	}
	c.active.Store(&transport.CoordinatorBeat{Instance: instance})
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(transport.ProgressInterval)
		defer tick.Stop()
		for {
			if err := c.requester.CoordinatorBeat(c.active.Load()); err != nil {
				b.t.Error(err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	var once sync.Once
	c.silent = func() {
		once.Do(func() {
			cancel()
			ended.Wait()
			unsubscribe()
			c.requester.Close()
			conn.Close()
		})
	}
	b.t.Cleanup(c.silent)
	return c
}

// await gives the next beat of a worker that fulfils a condition.
func (c *coordinator) await(what, id string, condition func(*transport.Beat) bool) *transport.Beat {
	c.t.Helper()
	deadline := time.After(patience)
	var last *transport.Beat
	for {
		select {
		case beat := <-c.beats:
			if beat.Worker == id && condition(beat) {
				return beat
			}
			last = beat
		case <-deadline:
			c.t.Fatalf("waited in vain for %s; the last beat is %+v", what, last)
		}
	}
}

func (c *coordinator) awaitState(id string, state transport.WorkerState) *transport.Beat {
	c.t.Helper()
	return c.await(string(state), id, func(b *transport.Beat) bool { return b.State == state })
}

func (c *coordinator) assign(id string, epoch, term uint64, identity transport.Identity, layers []transport.LayerParts) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.requester.Assign(ctx, id, &transport.Assign{Coordinator: c.instance, Epoch: epoch, Term: term, Identity: identity, Layers: layers})
}

// activate says which epoch is active, as often as it takes to be believed, and in each beat from now on.
func (c *coordinator) activate(epoch, term uint64) {
	c.t.Helper()
	b := &transport.CoordinatorBeat{Instance: c.instance, Term: term, Epoch: epoch}
	c.active.Store(b)
	for range steadyBeats {
		if err := c.requester.CoordinatorBeat(b); err != nil {
			c.t.Fatal(err)
		}
	}
}

// ask sends work and waits for the answer.
func (c *coordinator) ask(id string, w *transport.Work) (*transport.Result, error) {
	c.t.Helper()
	replies := make(chan transport.Reply, 10)
	if err := c.requester.Send(id, w, replies); err != nil {
		c.t.Fatal(err)
	}
	defer c.requester.Forget(w.Request)
	deadline := time.After(patience)
	for {
		select {
		case r := <-replies:
			if r.Result != nil || r.Err != nil {
				return r.Result, r.Err
			}
		case <-deadline:
			c.t.Fatal("no answer to work")
		}
	}
}

// remote checks that an error came from the worker with a code.
func remote(t *testing.T, what string, err error, code transport.ErrorCode) string {
	t.Helper()
	var r *transport.RemoteError
	if !errors.As(err, &r) || r.Code != code {
		t.Errorf("%s: error %v, want code %s", what, err, code)
		return ""
	}
	return r.Message
}

// reference holds all experts in this process and computes what a worker should answer.
type reference struct {
	*shard.Shards
	requests uint64
}

func (b *bench) reference(f kernels.Format, parts int) *reference {
	b.t.Helper()
	set, err := kernels.Select("generic")
	if err != nil {
		b.t.Fatal(err)
	}
	store, err := arena.OpenStore(arena.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { store.Close() })
	tm, err := team.New(1, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(tm.Close)
	plan, err := shard.NewPlan(b.model.Config(), f, parts, shard.Whole(b.model.Config(), parts))
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := shard.NewHolder(shard.Options{Checkpoint: b.model, Store: store, Team: tm, Kernels: set, Node: -1}).
		Load(context.Background(), shard.Loading{Plan: plan})
	if err != nil {
		b.t.Fatal(err)
	}
	return &reference{Shards: s}
}

// work makes rows for expert parts of a layer.
func (r *reference) work(t *testing.T, epoch, term uint64, layer int, ids ...uint32) *transport.Work {
	t.Helper()
	const rows = 3
	r.requests++
	random := rand.New(rand.NewPCG(r.requests, 1))
	set, err := kernels.Select("generic")
	if err != nil {
		t.Fatal(err)
	}
	var a kernels.Activations
	shape := r.Plan().Shapes[0]
	a.Reset(shape.Format.Quantized(), rows, shape.Hidden)
	w := &transport.Work{
		Epoch: epoch, Term: term, Layer: layer, Request: r.requests, Rows: rows, Hidden: shape.Hidden, Quantized: a.Quantized, Offsets: []uint32{0},
	}
	x := make([]float32, shape.Hidden)
	for row := range rows {
		for c := range x {
			x[c] = float32(random.NormFloat64())
		}
		if err := set.Prepare(&a, row, x); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			w.Parts, w.Weights = append(w.Parts, id), append(w.Weights, random.Float32())
		}
		w.Offsets = append(w.Offsets, uint32(len(w.Parts)))
	}
	w.Values, w.Codes, w.Scales = a.Values, a.Codes, a.Scales
	return w
}

// sum is what a worker should answer.
func (r *reference) sum(t *testing.T, w *transport.Work) string {
	t.Helper()
	var result transport.Result
	if err := r.Compute(context.Background(), w, &result); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(result.Sum)
}
