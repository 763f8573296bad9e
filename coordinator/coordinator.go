package coordinator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/cluster"
	"github.com/moepool/moepool/coordinator/dispatch"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/template"
	"github.com/moepool/moepool/coordinator/tokenizer"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/transport"
)

// Options configure a coordinator.
type Options struct {
	ModelDir     string
	Version      string // of this build, named in handshakes
	ExpertFormat kernels.Format
	DenseFormat  kernels.Format
	KVFormat     attention.Format
	Parts        int
	Context      int // 0: the model's, at most engine.DefaultContext
	Budget       budget.Policy
	Residency    ResidencyOverride // the zero value observes
	Replicas     int               // most workers that hold one expert part; 0 and 1: no replicas
	Prefetch     engine.Prefetch   // when a layer's experts are predicted; the zero value: while experts have been missing lately
	OnMissing    dispatch.OnMissing
	Missing      time.Duration // how long a worker is waited for that holds a missing expert; 0: the default
	Kernels      *kernels.Set
	Threads      int
	Nodes        []numa.Node // to whose cores the threads are pinned; may be empty
	Cluster      string
	Workers      int  // to wait for
	Grouped      bool // one of several coordinators: it follows workers and answers only while it leads: see Serve
	Tolerant     bool // a refused worker does not end the start: others may come
	InMemory     bool // the workers have no arena files: their experts must fit into memory
	Lane         bool // take the local lane of workers on this host
	Connect      transport.ConnectOptions
	Log          func(format string, args ...any)
	Progress     func(Progress) // may be nil; called from several goroutines
	// ObserveWorker is told of each answer of a worker; may be nil.
	ObserveWorker func(dispatch.Answer)
}

func (o *Options) log(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// Progress tells how far the start is.
type Progress struct {
	DenseDone, DenseTotal int64
	Workers               []transport.Beat // nil in dense progress
}

// Coordinator is a running model.
type Coordinator struct {
	Checkpoint *checkpoint.Checkpoint
	Tokenizer  *tokenizer.Tokenizer
	Template   *template.Template // nil if the model has none
	Engine     *engine.Engine     // nil before Prepare
	Conn       *transport.Conn
	Identity   transport.Identity // what workers must have in common with it

	options   Options
	requester *transport.Requester
	team      *team.Team
	turn      chan struct{} // holds one token: the request that computes now
	office    atomic.Pointer[office]
	group     atomic.Pointer[cluster.Node] // nil: it is not one of a group
	policies  atomic.Pointer[policies]
	closing   sync.Once
	onClose   []func()
}

// Open checks the model and connects; it neither packs nor waits. Start does, or Prepare and Serve for one of a group.
func Open(ctx context.Context, o Options) (_ *Coordinator, err error) {
	c := &Coordinator{options: o, turn: make(chan struct{}, 1)}
	c.policies.Store(o.policies())
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.Checkpoint, err = checkpoint.Open(o.ModelDir); err != nil {
		return nil, err
	}
	c.onClose = append(c.onClose, func() { c.Checkpoint.Close() })
	if err := CheckParts(o.ExpertFormat, c.Checkpoint.Config(), o.Parts); err != nil {
		return nil, err
	}
	if err := c.CheckBudget(o.Budget); err != nil {
		return nil, fmt.Errorf("--expert-budget: %w", err)
	}
	if err := o.Residency.check(c.Checkpoint.Config().Experts); err != nil {
		return nil, err
	}
	if c.Tokenizer, err = tokenizer.Load(o.ModelDir); err != nil {
		return nil, err
	}
	if c.Template, err = template.Load(o.ModelDir); err != nil {
		return nil, err
	}
	if c.Conn, err = transport.Connect(ctx, o.Connect); err != nil {
		return nil, err
	}
	c.onClose = append(c.onClose, c.Conn.Close)
	if c.requester, err = transport.NewRequester(c.Conn, o.Cluster); err != nil {
		return nil, err
	}
	c.onClose = append(c.onClose, c.requester.Close)
	if c.Identity, err = Identity(c.Checkpoint, o.ExpertFormat, o.Parts, o.Version); err != nil {
		return nil, err
	}
	if !o.Grouped {
		return c, c.take(ctx, leadership{term: 1})
	}
	return c, nil
}

// Start prepares and waits until the workers are ready, both at once: for a coordinator that is not one of a group.
func (c *Coordinator) Start(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(c.Prepare)
	group.Go(func() error { return c.waitReady(groupCtx) })
	return group.Wait()
}

// Prepare packs the dense weights: what a coordinator has ready before it leads.
func (c *Coordinator) Prepare() (err error) {
	o := &c.options
	if c.team, err = team.NewOnNodes(o.Threads, o.Nodes); err != nil {
		return err
	}
	c.onClose = append(c.onClose, c.team.Close)
	experts := engine.Experts(leaderExperts{c})
	if o.Residency.set {
		experts = overriddenResidency{experts, o.Residency}
	}
	c.Engine, err = engine.New(c.Checkpoint, engine.Options{
		Kernels: o.Kernels, Team: c.team, ExpertFormat: o.ExpertFormat, DenseFormat: o.DenseFormat,
		KVFormat: o.KVFormat, Context: o.Context, Budget: o.Budget, Experts: experts, Parts: o.Parts, Prefetch: o.Prefetch,
		Progress: func(done, total int64) { c.progress(Progress{DenseDone: done, DenseTotal: total}) },
	})
	if err != nil {
		return err
	}
	c.onClose = append(c.onClose, c.Engine.Close)
	if _, problem := c.Engine.DensePlacement(); problem != "" {
		o.log("warning: %s", problem)
	}
	return nil
}

func (c *Coordinator) progress(p Progress) {
	if c.options.Progress != nil {
		c.options.Progress(p)
	}
}

// Close ends everything that Open and Start began; workers started by hand live on.
func (c *Coordinator) Close() {
	c.closing.Do(func() {
		c.Resign(transport.ErrClosed)
		for i := len(c.onClose) - 1; i >= 0; i-- {
			c.onClose[i]()
		}
	})
}

// Identity is what workers must have in common with a coordinator of this checkpoint.
func Identity(cp *checkpoint.Checkpoint, format kernels.Format, parts int, version string) (transport.Identity, error) {
	digest, err := cp.Digest()
	if err != nil {
		return transport.Identity{}, err
	}
	return transport.Identity{
		Protocol: transport.ProtocolVersion, Build: version, ModelDigest: digest,
		Format: format.String(), Parts: parts, Layout: kernels.LayoutVersion,
	}, nil
}

func CheckParts(format kernels.Format, config *checkpoint.Config, parts int) error {
	if most := kernels.MaxParts(format, config.ExpertIntermediate); parts < 1 || parts > most {
		return fmt.Errorf("--parts is %d: an expert of this model (FFN width %d) can be packed in 1 to %d parts",
			parts, config.ExpertIntermediate, most)
	}
	return nil
}
