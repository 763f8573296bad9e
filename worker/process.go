package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/internal/bytesize"
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
	holder     *shard.Holder
	popularity *popularity
	trace      *os.File // nil without one
}

// hold opens everything; errors are those of the model, the node and, for packing, the folder's lock.
func hold(o Options, packing bool) (h *holding, err error) {
	h = &holding{o: o, checkpoint: o.Checkpoint, popularity: newPopularity()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
			h = nil
		}
	}()
	if h.checkpoint == nil {
		if h.checkpoint, err = checkpoint.Open(o.ModelDir); err != nil {
			return h, err
		}
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
	h.seat.notes = append(h.seat.notes, o.Residency.Notes...)
	h.memory = h.seat.memory(o.PerNode)
	h.store, err = arena.OpenStore(arena.Options{
		Dir:      ArenaFolder(o.ArenaDir, digest, o.Format, o.Parts, o.ID),
		Identity: fmt.Sprintf("model %s format %s parts %d layout %d", digest, o.Format, o.Parts, kernels.LayoutVersion),
		// Another moepool may run the same model on this host; the folder's owner is named in the log line.
		AnonymousIfLocked: !packing,
		MLock:             o.Residency.MLock && !packing, LockLimit: h.lockLimit(), HugePages: o.Residency.HugePages,
		Log: func(format string, args ...any) { o.Log("warning: "+format, args...) },
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
	options := shard.Options{
		Checkpoint: h.checkpoint, Store: h.store, Dir: h.store.Dir(), Team: h.team, Kernels: o.Kernels, Node: h.seat.node,
		StrictNUMA: o.StrictNUMA, Log: o.Log, Prefetch: o.Residency.Prefetch,
	}
	if !packing {
		h.loadProfile()
		if options.Resident, err = h.residentOptions(); err != nil {
			return h, err
		}
	}
	h.holder = shard.NewHolder(options)
	return h, nil
}

// residentOptions are those of the holder's ledger; nil without a limit.
func (h *holding) residentOptions() (*shard.ResidentOptions, error) {
	r := &h.o.Residency
	if r.Limit == 0 {
		return nil, nil
	}
	if h.store.Dir() == "" {
		h.seat.note("the resident limit of %s is not kept: experts are in anonymous memory, which can't be read again (--arena-dir)", bytesize.Text(r.Limit))
		if r.Trace != "" {
			h.seat.note("no residency trace is written: without a limit that is kept there is no ledger")
		}
		r.Limit = 0
		return nil, nil
	}
	profile, _ := h.popularity.hottest()
	o := &shard.ResidentOptions{Limit: r.Limit, Policy: r.Eviction, Profile: profile, Worker: h.o.ID}
	if r.Trace != "" {
		var err error
		if h.trace, err = os.Create(r.Trace); err != nil {
			return nil, fmt.Errorf("--residency-trace: %w", err)
		}
		o.Record = h.trace
	}
	return o, nil
}

// close is safe on what hold left half done.
func (h *holding) close() error {
	var errs []error
	if h.holder != nil {
		errs = append(errs, h.holder.Close())
	}
	if h.trace != nil {
		errs = append(errs, h.trace.Close())
	}
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

// plan checks an assignment's expert parts.
func (h *holding) plan(layers []transport.LayerParts) (*shard.Plan, error) {
	return shard.NewPlan(h.checkpoint.Config(), h.o.Format, h.o.Parts, layers)
}

// process is a running worker.
type process struct {
	*holding
	instance string
	host     string
	lane     transport.LaneOffer // set before the first beat

	changed chan struct{} // capacity 1: a beat is due at once
	ended   chan error    // capacity 1: drain (nil) or refused

	mu      sync.Mutex
	epochs  epochs
	wanted  *shard.Plan   // of the assignment that is loading
	loading *loading      // in progress
	tended  chan struct{} // closed at the end of tend's goroutine; nil: there is none
	ready   int64         // bytes of the newest assignment
	total   int64
	lookNow bool // the next beat carries residency

	warmDone, warmTotal int64 // bytes of the latest warm-up

	rival   bool // the last beat was that of another coordinator
	leaving bool // it drains
	ending  bool // it takes no more work, and loads and gives back no more

	result     transport.Result
	endProfile func() error // saves it for the last time
	fit        fitWatch     // of the goroutine that beats
	told       uint64       // version of the ledger that the last beat with residency had
}

func newProcess(h *holding) *process {
	return &process{
		holding: h, instance: rand.Text(), host: h.o.Host, epochs: epochs{state: transport.StateIdle},
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
