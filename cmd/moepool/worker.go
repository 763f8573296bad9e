package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/numa/hostinfo"
	"github.com/moepool/moepool/worker"
	"github.com/moepool/moepool/worker/children"
)

// workerFlags are the flags of `worker`.
type workerFlags struct {
	model    modelFlags
	arena    arenaFlags
	nats     natsFlags
	lane     laneFlags
	resident residencyFlags
	id       string
	host     string
	node     int
	allNodes bool
	index    int
	perNode  int
	threads  int
	quiet    bool
	fetch    bool

	drainTimeout time.Duration
}

func newWorkerCommand() *cobra.Command {
	f := &workerFlags{}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Hold and compute experts: one worker (--node N), or one per NUMA node (--all-nodes)",
		Long: `Starts a worker that is pinned to one NUMA node: its threads run on the node's CPUs, its memory comes from the node. It
registers with the coordinator of its cluster over NATS, loads the experts that it is given from the checkpoint on this host, and computes.
It outlives coordinators and registers with the next one. --model, --format and --parts must equal the coordinator's.

With --fetch the host needs no model: the files that hold this worker's experts come from the coordinator (--offer-model) into --model, or a
folder in the user's cache; a transfer that was stopped goes on where it was, and every piece is checked.

SIGTERM (or Ctrl-C) drains it: it goes on serving until the coordinator has placed its experts elsewhere, for --drain-timeout at most; a second
signal ends it at once.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.model.register(flags)
	f.arena.register(flags)
	f.nats.register(flags)
	f.lane.register(flags)
	f.resident.register(flags)
	flags.StringVar(&f.id, "id", "", "name of the worker, unique in its cluster (default: HOST-nodeN)")
	flags.StringVar(&f.host, "host", "", "name of this host, for the worker's id and for the placement (default: the hostname; a container's is not the host's)")
	flags.IntVar(&f.node, "node", 0, "NUMA node to run on")
	flags.BoolVar(&f.allNodes, "all-nodes", false, "start one worker process per NUMA node; they end with this process")
	flags.IntVar(&f.index, "index", 0, "number of this worker on its node, from 0")
	flags.IntVar(&f.perNode, "per-node", 1, "workers that share the node")
	flags.IntVar(&f.threads, "threads", 0, "threads (default: the worker's share of the node's physical cores)")
	flags.DurationVar(&f.drainTimeout, drainTimeoutFlag, worker.DefaultDrainTimeout, "how long a worker that was told to end may go on until its experts are elsewhere")
	flags.BoolVar(&f.fetch, "fetch", false, "take files of the model that are not in --model (default: a folder in the user's cache) from the coordinator's --offer-model")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "warnings only")
	cmd.MarkFlagsMutuallyExclusive("all-nodes", "node")
	cmd.MarkFlagsMutuallyExclusive("all-nodes", "id")
	return cmd
}

const drainTimeoutFlag = "drain-timeout"

func (f *workerFlags) run(cmd *cobra.Command) error {
	if f.drainTimeout <= 0 {
		return usageError{fmt.Errorf("--%s %v: a time above 0", drainTimeoutFlag, f.drainTimeout)}
	}
	if f.threads < 0 || f.perNode < 1 || f.index < 0 || f.index >= f.perNode {
		return usageError{errors.New("--threads and --index can't be negative, --per-node is at least 1 and more than --index")}
	}
	if f.nats.url == "" {
		return usageError{errors.New("--nats is needed: the URL that the coordinator printed, or that of a NATS server")}
	}
	lane, err := f.lane.local()
	if err != nil {
		return err
	}
	if err := f.resident.check(); err != nil {
		return err
	}
	if f.allNodes {
		return f.runAll(cmd)
	}
	topology, err := numa.Read()
	if err != nil {
		return err
	}
	if _, bound := numa.Bound(); !bound {
		// Threads that Go started before main keep their own policy, so the process starts anew under the node's.
		node, err := topology.Node(f.node)
		if err != nil {
			return usageError{fmt.Errorf("--node: %w", err)}
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return numa.ExecPinned(node, f.arena.strictNUMA, append([]string{self}, os.Args[1:]...), os.Environ())
	}
	log := newLogger(!f.quiet)
	dir, format, set, err := f.model.resolve(cmd.Context())
	if err != nil {
		return err
	}
	arenaDir, err := f.arena.folder()
	if err != nil {
		log.Printf("warning: no arena: %v", err)
	}
	parent, err := children.ParentPipe()
	if err != nil {
		return err
	}
	options := worker.Options{
		ID: f.id, Host: f.host, Cluster: f.nats.cluster, ModelDir: dir, Format: format, Parts: f.model.parts, Node: f.node,
		Index: f.index, PerNode: f.perNode, Kernels: set, Threads: f.threads, ArenaDir: arenaDir,
		StrictNUMA: f.arena.strictNUMA, Lane: lane, ParentPipe: parent, Log: log.Printf, Version: buildVersion(),
	}
	if options.ID == "" {
		options.ID = worker.DefaultID(f.host, f.node, f.index, f.perNode)
	}
	if options.Connect, err = f.nats.options(options.ID, log.Printf); err != nil {
		return err
	}
	if f.fetch {
		model, err := fetchModel(cmd.Context(), options.Connect, f.nats.cluster, f.model.model, log)
		if err != nil {
			return err
		}
		defer model.close()
		options.Checkpoint, options.ModelDir, options.Fetch = model.checkpoint, model.dir, model.fetch
	}
	if options.Residency, err = f.residency(&options, log); err != nil {
		return explainMissing(err)
	}
	// A child ends with what started it, and at once, unless that one gave it time (runAll).
	if parent == nil || cmd.Flags().Changed(drainTimeoutFlag) {
		leave, done := departure.prepare()
		defer done()
		options.Leave, options.DrainTimeout = leave, f.drainTimeout
	}
	return explainMissing(worker.Run(cmd.Context(), options))
}

// residency is what the flags ask of one worker.
func (f *workerFlags) residency(o *worker.Options, log *logger) (worker.Residency, error) {
	config := (*checkpoint.Config)(nil)
	if o.Checkpoint != nil {
		config = o.Checkpoint.Config()
	}
	sharers := 1 // of a limit that is given: it is this worker's own
	if f.resident.limit == limitAuto {
		sharers = f.perNode
	}
	limit, err := f.residentRoom(o.ModelDir, config, sharers)
	if err != nil {
		return worker.Residency{}, err
	}
	if o.ParentPipe == nil { // else who started it has said it
		limit.say(log)
	}
	r, err := f.resident.parse(limit.each)
	r.Notes = limit.notes()
	return r, err
}

// residentRoom finds the resident limit of each of so many workers that share it. config may be nil: then it is that of the model in dir, and
// with --fetch there may be none yet.
func (f *workerFlags) residentRoom(dir string, config *checkpoint.Config, workers int) (room residentRoom, err error) {
	format, err := kernels.ParseFormat(f.model.format)
	if err != nil {
		return room, err
	}
	if config == nil && (dir != "" || !f.fetch) {
		if config, err = checkpoint.ReadConfig(dir); err != nil && !(f.fetch && errors.Is(err, checkpoint.ErrMissing)) {
			return room, err
		}
	}
	h := holding{workers: workers, needs: int64(workers) * workerNeeds}
	if config != nil {
		if err := coordinator.CheckParts(format, config, f.model.parts); err != nil {
			return room, usageError{err}
		}
		h = holdingOf(coordinator.PlacementModel(config, format, f.model.parts), workers)
	}
	h.files = f.arena.dir != "none"
	return f.resident.room(hostinfo.This(), h)
}

// runAll starts a worker per node and waits until all have ended or one failed.
func (f *workerFlags) runAll(cmd *cobra.Command) error {
	ctx := cmd.Context()
	topology, err := numa.Read()
	if err != nil {
		return err
	}
	dir, _, _, err := f.model.resolve(ctx)
	if err != nil {
		return err
	}
	if f.fetch {
		dir = f.model.model // "" is each worker's to find
	}
	seats, err := seatWorkers(topology.ComputeNodes(), 0)
	if err != nil {
		return err
	}
	for i := range seats {
		seats[i].host = f.host
	}
	token, err := f.nats.token()
	if err != nil {
		return err
	}
	arguments := workerArguments(&f.model, &f.arena, &f.lane, dir, f.nats.url, f.nats.cluster, f.threads)
	for flag, value := range map[string]string{
		"--host": f.host, "--nats-creds": f.nats.creds, "--nats-nkey": f.nats.nkey, "--nats-ca": f.nats.ca, "--nats-cert": f.nats.cert, "--nats-key": f.nats.key,
	} {
		if value != "" {
			arguments = append(arguments, flag, value)
		}
	}
	limit, err := f.residentRoom(dir, nil, len(seats))
	if err != nil {
		return explainMissing(err)
	}
	log := newLogger(true)
	limit.say(log)
	arguments = append(arguments, f.resident.arguments(limit.each)...)
	arguments = append(arguments, "--"+drainTimeoutFlag, f.drainTimeout.String(), "--fetch="+strconv.FormatBool(f.fetch))
	group, err := children.Start(ctx, children.Spec{
		Args: arguments, Env: []string{tokenVariable + "=" + token}, Workers: childWorkers(seats, &f.resident), Log: log,
	})
	if err != nil {
		return err
	}
	defer group.Stop(stopTimeout)
	leave, done := departure.prepare()
	defer done()
	for exits := group.Exits(); ; {
		select {
		case <-leave:
			leave = nil
			group.Terminate()
		case exit, more := <-exits:
			if !more {
				return ctx.Err()
			}
			if exit.Err != nil && !exit.Asked {
				return exit
			}
		}
	}
}
