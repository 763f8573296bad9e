package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/transport"
)

// serverFlags are the flags of `coordinator`.
type serverFlags struct {
	model       modelFlags
	coordinator coordinatorFlags
	nats        natsFlags
	lane        laneFlags
	group       groupFlags
	listen      string
	workers     int
	http        string
	asJSON      bool
	offer       bool
	offerDir    string
}

// coordinatorReady is what `coordinator --json` prints when it serves; one of a group prints it each time that it begins to lead.
type coordinatorReady struct {
	NATS    string   `json:"nats"`
	Cluster string   `json:"cluster"`
	HTTP    string   `json:"http"`
	Workers []string `json:"workers"`
	Leader  string   `json:"leader,omitempty"` // this coordinator's id in its group
	Term    uint64   `json:"term,omitempty"`   // that it leads
}

func newCoordinatorCommand() *cobra.Command {
	f := &serverFlags{}
	cmd := &cobra.Command{
		Use:   "coordinator",
		Short: "Run the coordinator alone: it waits for workers and serves generate requests on NATS",
		Long: `Runs a NATS server (or uses --nats), waits for --workers workers, gives each its experts, and answers "moepool run --nats URL".

  moepool coordinator --listen 127.0.0.1:4222 --token-file token --workers 2
  moepool worker --nats nats://127.0.0.1:4222 --token-file token --all-nodes
  moepool run    --nats nats://127.0.0.1:4222 --token-file token "And it came to pass"

With --raft-dir it is one of a group, usually of three on different hosts. They elect one that leads: it follows the workers and answers.
The others have their dense weights ready, and when the leader ends, or can't reach a majority or NATS, one of them leads on with the same
placement. Begin with the certificates that they prove themselves with; each gets ca.pem and its own two files:

  moepool coordinator certificates certs --raft-peers a=hosta:7000,b=hostb:7000,c=hostc:7000
  moepool coordinator --nats nats://nats:4222 --token-file token --workers 2 --raft-dir /var/lib/moepool/raft --raft-id a \
      --raft-peers a=hosta:7000,b=hostb:7000,c=hostc:7000 --raft-ca ca.pem --raft-cert a.pem --raft-key a-key.pem

All of a group serve the same model. Policies such as --expert-budget are the group's: a flag that is given becomes the group's when its
coordinator leads, one that is not given is taken from the group.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.AddCommand(newCertificatesCommand())
	flags := cmd.Flags()
	f.model.register(flags)
	f.coordinator.register(flags)
	f.coordinator.registerPrefetch(flags)
	f.nats.register(flags)
	f.lane.register(flags)
	f.group.register(flags)
	flags.StringVar(&f.listen, "listen", "", "address of the embedded NATS server (default: 127.0.0.1 and a free port)")
	flags.BoolVar(&f.offer, "offer-model", false, "put the model's files into a JetStream object store, once, for workers with --fetch")
	flags.StringVar(&f.offerDir, "offer-dir", "", "folder for --offer-model of the embedded NATS server (default: in the user's cache)")
	flags.IntVar(&f.workers, "workers", 1, "workers to wait for")
	flags.StringVar(&f.http, "http", "127.0.0.1:9464", "address of /metrics, /healthz and /readyz; none: not served")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object when it serves")
	cmd.MarkFlagsMutuallyExclusive("listen", "nats")
	return cmd
}

func (f *serverFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if f.listen != "" && f.nats.url != "" { // one of them came from the environment: the command line is for this call
		if cmd.Flags().Changed("listen") {
			f.nats.url = ""
		} else {
			f.listen = ""
		}
	}
	if f.workers < 1 {
		return usageError{fmt.Errorf("--workers is %d, it must be at least 1", f.workers)}
	}
	if f.offerDir != "" && (!f.offer || f.nats.url != "") {
		return usageError{errors.New("--offer-dir is the embedded NATS server's folder for --offer-model; it goes with that flag and not with --nats")}
	}
	grouped, err := f.group.grouped(cmd.Flags(), f.nats.url)
	if err != nil {
		return err
	}
	dir, format, set, err := f.model.resolve(ctx)
	if err != nil {
		return err
	}
	topology, err := numa.Read()
	if err != nil {
		return err
	}
	options, err := f.coordinator.options(format, set, topology)
	if err != nil {
		return err
	}
	if options.Lane, err = f.lane.local(); err != nil {
		return err
	}
	log := newLogger(true)
	if options.Connect, err = f.nats.options("moepool coordinator", log.Printf); err != nil {
		return err
	}
	url := f.nats.url
	if url == "" {
		store := ""
		if f.offer {
			if store, err = offerFolder(f.offerDir, f.nats.cluster); err != nil {
				return err
			}
		}
		server, err := transport.StartServer(transport.ServerOptions{Listen: f.listen, Token: options.Connect.Token, StoreDir: store})
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		defer server.Close()
		options.Connect.Server, url = server, server.URL()
		if options.Connect.Token == "" {
			log.Printf("NATS listens on %s; workers and clients need this token (%s): %s", url, tokenVariable, server.Token())
		} else {
			log.Printf("NATS listens on %s", url)
		}
	}
	bars := newBars(log, true)
	defer bars.finish()
	options.ModelDir, options.ExpertFormat, options.Parts = dir, format, f.model.parts
	options.Cluster, options.Workers = f.nats.cluster, f.workers
	options.Tolerant, options.Grouped = true, grouped
	metrics := serve.NewMetrics()
	trace, err := openTrace(f.coordinator.trace)
	if err != nil {
		return err
	}
	defer trace.close()
	options.Log, options.Progress, options.ObserveWorker = log.Printf, bars.progress, trace.observer(metrics.ObserveWorker)
	c, err := coordinator.Open(ctx, options)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.offer {
		if err := offerModel(ctx, c.Conn, f.nats.cluster, c.Checkpoint, log); err != nil {
			return err
		}
	}
	address := ""
	if f.http != "none" {
		var stop func()
		if address, stop, err = serve.HTTP(f.http, c, metrics); err != nil {
			return err
		}
		defer stop()
	}
	ready := coordinatorReady{NATS: url, Cluster: f.nats.cluster, HTTP: address, Workers: []string{}}
	if grouped {
		return f.runGrouped(cmd, c, bars, metrics, ready, log)
	}
	server, err := f.newServer(c, metrics, ready, log) // its status is wanted while workers are missing
	if err != nil {
		return err
	}
	defer server.Stop()
	log.Printf("waiting for %d worker(s) of cluster %s", f.workers, f.nats.cluster)
	if err := c.Start(ctx); err != nil {
		return err
	}
	bars.finish()
	metrics.Attach(c)
	if err := f.answer(c, server, ready, log); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// newServer begins to answer admin commands.
func (f *serverFlags) newServer(c *coordinator.Coordinator, metrics *serve.Metrics, ready coordinatorReady, log *logger) (*serve.Server, error) {
	return serve.New(c, serve.Options{Cluster: f.nats.cluster, Version: buildVersion(), Leader: ready.Leader,
		PrefillChunk: f.coordinator.prefillChunk, Metrics: metrics, Log: log.Printf})
}

// runGrouped takes part in the group until ctx ends.
func (f *serverFlags) runGrouped(cmd *cobra.Command, c *coordinator.Coordinator, bars *bars, metrics *serve.Metrics, ready coordinatorReady, log *logger) error {
	if err := c.Prepare(); err != nil { // before it can be elected
		return err
	}
	bars.finish()
	metrics.Attach(c)
	node, err := f.group.open(log.Printf)
	if err != nil {
		return err
	}
	defer node.Close()
	log.Printf("coordinator %s of cluster %s stands by", f.group.id, f.nats.cluster)
	ready.Leader = f.group.id
	return c.Serve(cmd.Context(), node, coordinator.GroupOptions{
		Settings: givenPolicies(cmd.Flags()),
		Front: func(term uint64) (coordinator.Front, error) {
			front := &groupFront{f: f, c: c, ready: ready, log: log}
			front.ready.Term = term
			var err error
			front.Server, err = f.newServer(c, metrics, ready, log)
			return front, err
		},
	})
}

// groupFront is what users see of a group's leader.
type groupFront struct {
	*serve.Server
	f     *serverFlags
	c     *coordinator.Coordinator
	ready coordinatorReady
	log   *logger
}

// Ready implements coordinator.Front.
func (g *groupFront) Ready() error { return g.f.answer(g.c, g.Server, g.ready, g.log) }

// answer begins to answer requests, and says so.
func (f *serverFlags) answer(c *coordinator.Coordinator, server *serve.Server, ready coordinatorReady, log *logger) error {
	if err := server.Generate(); err != nil {
		return err
	}
	if members := c.Members(); members != nil { // else the lead is over already
		for _, b := range members.Workers() {
			ready.Workers = append(ready.Workers, b.Worker)
		}
	}
	if f.asJSON {
		if err := printJSON(os.Stdout, ready); err != nil {
			return err
		}
	}
	log.Printf("ready: %d worker(s)", len(ready.Workers))
	return nil
}
