// Generate makes the keys, permissions, certificates and configuration of NATS servers for moepool; see docs/nats.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/moepool/moepool/deploy/nats"
	"github.com/moepool/moepool/transport"
)

// list is a flag that may be repeated, each time with one or several comma-separated values.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	*l = append(*l, strings.Split(text, ",")...)
	return nil
}

// workers is the flag of workers' keys.
type workers []nats.Worker

func (w *workers) String() string { return fmt.Sprint(*w) }

func (w *workers) Set(text string) error {
	one, err := nats.ParseWorker(text)
	*w = append(*w, one)
	return err
}

func main() {
	o := nats.Options{}
	var hosts, coordinators, clients, admins list
	var all workers
	flag.StringVar(&o.Dir, "dir", "nats", "folder for all that is made")
	flag.StringVar(&o.Cluster, "cluster", transport.DefaultCluster, "moepool's --cluster")
	flag.Var(&hosts, "host", "name or address of a NATS server (repeatable, or a list); more than one: a cluster with routes")
	flag.Var(&coordinators, "coordinator", "name of a coordinator's key (repeatable; default: main)")
	flag.Var(&all, "worker", "NAME=ID,ID: a key and the worker ids that it may use, usually those of one host (repeatable)")
	flag.Var(&clients, "client", "name of a client's key (repeatable; default: main)")
	flag.Var(&admins, "admin", "name of an operator's key (repeatable; default: main)")
	flag.Parse()
	for _, l := range []*list{&coordinators, &clients, &admins} {
		if len(*l) == 0 {
			*l = list{"main"}
		}
	}
	o.Hosts, o.Coordinators, o.Workers, o.Clients, o.Admins = hosts, coordinators, all, clients, admins
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "no argument is expected, found %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := nats.Generate(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%[1]s/server goes to each NATS server, %[1]s/ca.pem to everybody who connects, each file of %[1]s/keys to its holder only; %[1]s/authority stays here\n", o.Dir)
}
