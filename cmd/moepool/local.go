package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker"
	"github.com/moepool/moepool/worker/children"
)

// How long worker processes may take to end before they are killed: when somebody waits for that, or one of them hangs, and when all are well.
// Then it is for what they keep: on a busy disk that takes a while, and a worker sees to it itself that it ends.
const (
	stopTimeout = 1500 * time.Millisecond
	saveTimeout = time.Minute
)

// localFlags configure a model that runs wholly on this host: workers as child processes, coordinator in this process.
type localFlags struct {
	model       modelFlags
	coordinator coordinatorFlags
	arena       arenaFlags
	lane        laneFlags
	residency   residencyFlags
	workers     int
	threads     int
	verbose     bool
}

func (f *localFlags) register(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "tell what coordinator and workers do")
	f.model.register(flags)
	f.coordinator.register(flags)
	f.arena.register(flags)
	f.lane.register(flags)
	f.residency.register(flags)
	flags.IntVar(&f.workers, "workers", 0, "worker processes, dealt to the NUMA nodes in turn (default: one per node)")
	flags.IntVar(&f.threads, "threads", 0, "threads of each worker (default: its share of the node's physical cores)")
}

// cluster is a running model on this host.
type cluster struct {
	*coordinator.Coordinator
	server  *transport.Server
	workers *children.Group
	started int        // workers
	failed  bool       // the last answer, perhaps since one of them hangs
	trace   *traceFile // nil without --trace
	notes   []string   // of the start, for the report
	loaded  time.Duration
	watched chan struct{}
}

// workerSeat is where one worker process belongs.
type workerSeat struct {
	host           string // "" is this host's name
	node           numa.Node
	index, perNode int
}

func (s workerSeat) id() string { return worker.DefaultID(s.host, s.node.ID, s.index, s.perNode) }

// seatWorkers deals n workers to the nodes in turn; 0 is one per node.
func seatWorkers(nodes []numa.Node, n int) ([]workerSeat, error) {
	if n < 0 {
		return nil, usageError{fmt.Errorf("--workers is %d, it must be at least 1 (0: one per NUMA node)", n)}
	}
	if n == 0 {
		n = len(nodes)
	}
	seats := make([]workerSeat, n)
	for i := range seats {
		node := i % len(nodes)
		seats[i] = workerSeat{node: nodes[node], index: i / len(nodes), perNode: (n - node + len(nodes) - 1) / len(nodes)}
	}
	return seats, nil
}

// childWorkers describes worker processes for seats; the connection and the model are given by shared arguments.
func childWorkers(seats []workerSeat, r *residencyFlags) []children.Worker {
	workers := make([]children.Worker, len(seats))
	for i, s := range seats {
		workers[i] = children.Worker{ID: s.id(), Args: []string{
			"--id", s.id(), "--node", strconv.Itoa(s.node.ID),
			"--index", strconv.Itoa(s.index), "--per-node", strconv.Itoa(s.perNode), "--residency-trace", r.traceOf(s.id(), len(seats)),
		}}
	}
	return workers
}

// workerArguments are the arguments of worker processes that hold this model.
func workerArguments(f *modelFlags, a *arenaFlags, lane *laneFlags, dir, nats, clusterName string, threads int) []string {
	arenaDir := a.dir
	if arenaDir == "" {
		arenaDir = "default"
	}
	return []string{
		"worker", "--model", dir, "--format", f.format, "--parts", strconv.Itoa(f.parts), "--kernels", f.kernels,
		"--arena-dir", arenaDir, "--strict-numa=" + strconv.FormatBool(a.strictNUMA),
		"--nats", nats, "--cluster", clusterName, "--threads", strconv.Itoa(threads), "--lane", lane.lane,
	}
}

// startLocal starts everything and returns when the model answers; check is called when tokenizer and configuration are known, before
// anything is loaded. The caller calls stop in any case.
func startLocal(ctx context.Context, f *localFlags, showProgress bool, check func(*coordinator.Coordinator) error) (c *cluster, err error) {
	begin := time.Now()
	log := newLogger(f.verbose)
	dir, format, set, err := f.model.resolve(ctx)
	if err != nil {
		return nil, err
	}
	topology, err := numa.Read()
	if err != nil {
		return nil, err
	}
	seats, err := seatWorkers(topology.ComputeNodes(), f.workers)
	if err != nil {
		return nil, err
	}
	if f.threads < 0 {
		return nil, usageError{fmt.Errorf("--threads is %d, it must be at least 1 (0: the node's physical cores)", f.threads)}
	}
	f.coordinator.prefetch = f.residency.prefetch
	options, err := f.coordinator.options(format, set, topology)
	if err != nil {
		return nil, err
	}
	if options.Lane, err = f.lane.local(); err != nil {
		return nil, err
	}
	if err := f.residency.check(); err != nil {
		return nil, err
	}
	c = &cluster{watched: make(chan struct{})}
	defer func() {
		if err != nil {
			c.stop()
			c = nil
		}
	}()
	if c.trace, err = openTrace(f.coordinator.trace); err != nil {
		return nil, err
	}
	options.ObserveWorker = c.trace.observer(nil)
	if c.server, err = transport.StartServer(transport.ServerOptions{}); err != nil {
		return nil, err
	}
	bars := newBars(log, showProgress)
	defer bars.finish()
	options.ModelDir, options.ExpertFormat, options.Parts = dir, format, f.model.parts
	options.Cluster, options.Workers, options.InMemory = transport.DefaultCluster, len(seats), f.arena.dir == "none"
	options.Connect = transport.ConnectOptions{Server: c.server, Name: "coordinator", Log: log.Printf}
	options.Log, options.Progress = log.Printf, bars.progress
	if c.Coordinator, err = coordinator.Open(ctx, options); err != nil {
		return nil, err
	}
	if err = check(c.Coordinator); err != nil {
		return nil, err
	}
	limit, err := f.residentRoom(c.Coordinator, &options, len(seats))
	if err != nil {
		return nil, err
	}
	limit.say(log)
	c.notes = limit.notes()
	c.workers, err = children.Start(ctx, children.Spec{
		Args: slices.Concat(workerArguments(&f.model, &f.arena, &f.lane, dir, c.server.URL(), transport.DefaultCluster, f.threads),
			f.residency.arguments(limit.each), []string{"--quiet=" + strconv.FormatBool(!f.verbose)}),
		Env:     []string{tokenVariable + "=" + c.server.Token()},
		Workers: childWorkers(seats, &f.residency),
		Log:     log,
	})
	if err != nil {
		return nil, err
	}
	c.started = len(seats)
	go c.watch()
	if err = c.Coordinator.Start(ctx); err != nil {
		return nil, err
	}
	c.loaded = time.Since(begin)
	if showProgress {
		bars.finish()
		fmt.Fprintln(os.Stderr, c.whereExpertsLie(&f.arena))
	}
	return c, nil
}

// residentRoom finds the resident limit of each worker that is started on this host, beside the coordinator.
func (f *localFlags) residentRoom(c *coordinator.Coordinator, o *coordinator.Options, workers int) (residentRoom, error) {
	needs, err := coordinatorBytes(c, o.DenseFormat, o.KVFormat)
	if err != nil {
		return residentRoom{}, err
	}
	m := coordinator.PlacementModel(c.Checkpoint.Config(), o.ExpertFormat, o.Parts)
	h := holdingOf(m, workers)
	h.needs, h.files = h.needs+needs, f.arena.dir != "none"
	room, err := f.residency.room(hostinfo.This(), h)
	if err == nil && room.each == 0 && f.residency.trace != "" {
		_, err = f.residency.parse(0)
	}
	return room, err
}

// whereExpertsLie says how many bytes of experts the workers hold, and in which folder.
func (c *cluster) whereExpertsLie(f *arenaFlags) string {
	var parts, files int
	var total, packed int64
	for _, b := range c.Members().Workers() {
		parts += b.ExpertParts
		files += b.Arena.Files
		total += b.Arena.Bytes
		packed += b.Arena.PackedBytes
	}
	place := "anonymous memory"
	if dir, err := f.folder(); err == nil && dir != "" && files > 0 {
		place = dir
	}
	return fmt.Sprintf("[%d expert parts, %s, of which %s packed now, in %s]", parts, bytesize.Text(total), bytesize.Text(packed), place)
}

// residencyWait is how long awaitResidency waits: a beat comes each second, but not from a host with far more to do than it can.
const residencyWait = 30 * transport.ProgressInterval

// awaitResidency waits until the workers' beats tell of all that they have computed, where not all of that was in memory: a report that is made
// then has the final counters. What a worker that has ended had computed is not told any more.
func (c *cluster) awaitResidency(ctx context.Context) {
	totals := c.Engine.Totals()
	told := func() bool {
		seen, of := uint64(0), uint64(totals.Hits+totals.Misses)
		limited := totals.Misses > 0
		for _, b := range c.Members().Workers() {
			seen += b.Residency.Hits + b.Residency.Misses
			limited = limited || b.Residency.Limit > 0
		}
		return !limited || seen >= of
	}
	ctx, cancel := context.WithTimeout(ctx, residencyWait)
	defer cancel()
	_ = each(ctx, 10*time.Millisecond, func() error { // it ends in time, or with nothing lost but the last counters
		if told() || len(c.workers.PIDs()) < c.started {
			return errTold
		}
		return nil
	})
}

// errTold ends awaitResidency.
var errTold = errors.New("the workers have told everything")

// whole says whether all workers that were started still run and beat.
func (c *cluster) whole() bool {
	members, running := c.Members(), c.workers.PIDs()
	if members == nil || len(running) < c.started {
		return false
	}
	for id := range running {
		if members.Lost(id) != nil {
			return false
		}
	}
	return true
}

// watch tells the coordinator of workers that ended, until all have.
func (c *cluster) watch() {
	defer close(c.watched)
	for exit := range c.workers.Exits() {
		if !exit.Asked {
			c.Members().Fail(exit.ID, exit)
		}
	}
}

// stop ends workers, coordinator and server; it may be called on a half-started cluster.
func (c *cluster) stop() {
	if c == nil {
		return
	}
	if c.workers != nil {
		timeout := stopTimeout
		if !c.failed && c.whole() {
			timeout = saveTimeout // Ctrl-C makes it short
		}
		c.workers.Stop(timeout)
		<-c.watched
	}
	if c.Coordinator != nil {
		c.Coordinator.Close()
	}
	c.trace.close()
	if c.server != nil {
		c.server.Close()
	}
}

// options fills what the coordinator's own flags decide.
func (f *coordinatorFlags) options(experts kernels.Format, set *kernels.Set, topology *numa.Topology) (coordinator.Options, error) {
	o := coordinator.Options{Version: buildVersion(), Kernels: set, Context: f.context, Threads: f.threads}
	var err error
	if o.Budget, err = f.policy(); err != nil {
		return o, err
	}
	if o.Residency, err = coordinator.ParseResidency(f.budgetResidency); err != nil {
		return o, usageError{fmt.Errorf("--budget-residency: %w", err)}
	}
	if f.prefetch != "" {
		if o.Prefetch, err = engine.ParsePrefetch(f.prefetch); err != nil {
			return o, usageError{fmt.Errorf("--prefetch: %w", err)}
		}
	}
	if f.replicas < 1 {
		return o, usageError{fmt.Errorf("--replicas is %d, it must be at least 1", f.replicas)}
	}
	o.Replicas = f.replicas
	if o.OnMissing, o.Missing, err = f.missing(); err != nil {
		return o, err
	}
	if o.DenseFormat, o.KVFormat, err = f.formats(experts); err != nil {
		return o, err
	}
	for flag, value := range map[string]int{"--coordinator-threads": f.threads, "--prefill-chunk": f.prefillChunk, "--context": f.context} {
		if value < 0 {
			return o, usageError{fmt.Errorf("%s is %d, it must be at least 1 (0: the default)", flag, value)}
		}
	}
	o.Nodes = topology.ComputeNodes()
	cores := topology.Cores()
	if o.Threads == 0 {
		o.Threads = cores
	}
	if o.Threads > cores {
		fmt.Fprintf(os.Stderr, "warning: --coordinator-threads %d is more than the %d allowed cores\n", o.Threads, cores)
	}
	return o, nil
}
