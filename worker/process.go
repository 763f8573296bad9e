package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// holding is what a worker needs to hold experts, before any connection: the model, the arena folder, the threads.
type holding struct {
	o          Options
	identity   transport.Identity
	checkpoint *checkpoint.Checkpoint
	store      *arena.Store
	team       *team.Team
	seat       *seat
	memory     shard.Memory // when the process started
}

// hold opens everything; errors are those of the model, the node and, for packing, the folder's lock.
func hold(o Options, packing bool) (h *holding, err error) {
	h = &holding{o: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
			h = nil
		}
	}()
	if h.checkpoint, err = checkpoint.Open(o.ModelDir); err != nil {
		return h, err
	}
	config := h.checkpoint.Config()
	if config.Experts == 0 {
		return h, fmt.Errorf("model %s has no experts: there is nothing for a worker to hold", o.ModelDir)
	}
	if most := kernels.MaxParts(o.Format, config.ExpertIntermediate); o.Parts > most {
		return h, fmt.Errorf("--parts %d: experts of %s have %d intermediate columns, at most %d parts are possible",
			o.Parts, o.ModelDir, config.ExpertIntermediate, most)
	}
	digest, err := h.checkpoint.Digest()
	if err != nil {
		return h, err
	}
	h.identity = transport.Identity{
		Protocol: transport.ProtocolVersion, Build: o.Version, ModelDigest: digest,
		Format: o.Format.String(), Parts: o.Parts, Layout: kernels.LayoutVersion,
	}
	if h.seat, err = takeSeat(&o); err != nil {
		return h, err
	}
	h.memory = h.seat.memory(o.PerNode)
	h.store, err = arena.OpenStore(arena.Options{
		Dir:      ArenaFolder(o.ArenaDir, digest, o.Format, o.Parts, o.ID),
		Identity: fmt.Sprintf("model %s format %s parts %d layout %d", digest, o.Format, o.Parts, kernels.LayoutVersion),
		// Another moepool may run the same model on this host; the folder's owner is named in the log line.
		AnonymousIfLocked: !packing,
		Log:               func(format string, args ...any) { o.Log("warning: "+format, args...) },
	})
	if err != nil {
		return h, err
	}
	h.team, err = team.New(h.seat.threads, h.seat.cpus)
	if err != nil {
		return h, err
	}
	if !h.team.Pinned() && len(h.seat.cpus) > 0 {
		h.seat.note("threads are not pinned to CPUs: the system does not permit it")
	}
	return h, nil
}

// close is safe on what hold left half done.
func (h *holding) close() error {
	var errs []error
	if h.team != nil {
		h.team.Close()
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	if h.checkpoint != nil {
		errs = append(errs, h.checkpoint.Close())
	}
	return errors.Join(errs...)
}

// digestPrefix is how many characters of the model's digest name its arena folder.
const digestPrefix = 16

// ArenaFolder is the folder of one worker's arenas under dir, or "" for anonymous memory (dir "" or "none").
func ArenaFolder(dir, digest string, f kernels.Format, parts int, id string) string {
	if dir == "" || dir == "none" {
		return ""
	}
	return filepath.Join(dir, fmt.Sprintf("%s-%s-p%d", digest[:min(len(digest), digestPrefix)], f, parts), id)
}

// load packs or maps a plan.
func (h *holding) load(ctx context.Context, plan *shard.Plan, previous *shard.Shards, progress func(ready, total int64)) (*shard.Shards, error) {
	memory := h.memory
	if previous != nil {
		// The room of what is replaced becomes free, and what the other process took since the start is not ours: look again.
		memory = h.seat.memory(h.o.PerNode)
		if memory.Available > 0 {
			memory.Available += previous.AnonymousBytes()
		}
	}
	return shard.Load(ctx, shard.Options{
		Checkpoint: h.checkpoint, Plan: plan, Store: h.store, Dir: h.store.Dir(), Memory: memory, Team: h.team, Kernels: h.o.Kernels,
		Node: h.seat.node, StrictNUMA: h.o.StrictNUMA, Previous: previous, Progress: progress, Log: h.o.Log,
	})
}

// plan checks an assignment's expert parts.
func (h *holding) plan(layers []transport.LayerParts) (*shard.Plan, error) {
	return shard.NewPlan(h.checkpoint.Config(), h.o.Format, h.o.Parts, layers)
}

func equalLayers(a, b []transport.LayerParts) bool {
	return slices.EqualFunc(a, b, func(x, y transport.LayerParts) bool {
		return x.Layer == y.Layer && slices.Equal(x.Parts, y.Parts)
	})
}

// process is a running worker.
type process struct {
	*holding
	instance string
	host     string
	lane     transport.LaneOffer // set before the first beat

	changed chan struct{} // capacity 1: a beat is due at once
	ended   chan error    // capacity 1: drain (nil) or refused

	mu        sync.Mutex
	state     transport.WorkerState
	failure   string                 // why it is failed
	assigned  *transport.Assign      // whom it works for; nil when idle
	loading   *loading               // in progress
	shards    *shard.Shards          // loaded; kept when idle
	loadedFor []transport.LayerParts // what shards hold
	ready     int64                  // bytes
	total     int64
	lookNow   bool // the next beat carries residency

	result transport.Result
}

func newProcess(h *holding) *process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &process{
		holding: h, instance: rand.Text(), host: host, state: transport.StateIdle,
		changed: make(chan struct{}, 1), ended: make(chan error, 1),
	}
}

// wake makes a beat due; callers hold mu or not.
func (p *process) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// end makes Run return; the first reason counts.
func (p *process) end(err error) {
	select {
	case p.ended <- err:
	default:
	}
}
