package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moepool/moepool/coordinator"
	group "github.com/moepool/moepool/coordinator/cluster" // the package has a type cluster
)

// groupFlags make a coordinator one of several.
type groupFlags struct {
	dir       string
	id        string
	listen    string
	peers     string
	ca        string
	cert      string
	key       string
	join      bool
	remove    []string
	heartbeat time.Duration
}

func (f *groupFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "raft-dir", "", "folder for the group's log: makes this coordinator one of several, of which one leads (needs --nats)")
	flags.StringVar(&f.id, "raft-id", "", "this coordinator's id in the group; it stays with --raft-dir for ever")
	flags.StringVar(&f.listen, "raft-listen", "", "address that the other coordinators connect to (default: this one's address in --raft-peers)")
	f.registerPeers(flags)
	flags.StringVar(&f.ca, "raft-ca", "", "certificate of the group's own authority (PEM); see moepool coordinator certificates")
	flags.StringVar(&f.cert, "raft-cert", "", "this coordinator's certificate (PEM)")
	flags.StringVar(&f.key, "raft-key", "", "this coordinator's key (PEM)")
	flags.BoolVar(&f.join, "raft-join", false, "join an existing group, whose coordinators have this one in their --raft-peers, instead of beginning one")
	flags.StringSliceVar(&f.remove, "raft-remove", nil, "ids that this coordinator takes out of the group when it leads")
	flags.DurationVar(&f.heartbeat, "raft-heartbeat", 0, "how long a leader may be silent before another one wants to lead (default 500ms)")
}

func (f *groupFlags) registerPeers(flags *pflag.FlagSet) {
	flags.StringVar(&f.peers, "raft-peers", "", "all coordinators of the group as ID=HOST:PORT,...; HOST:PORT/nonvoter has no vote and never leads")
}

// grouped says whether the coordinator is one of a group; flags without --raft-dir are an error.
func (f *groupFlags) grouped(flags *pflag.FlagSet, nats string) (bool, error) {
	var given []string
	flags.VisitAll(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.Name, "raft-") && flag.Value.String() != flag.DefValue {
			given = append(given, "--"+flag.Name)
		}
	})
	switch {
	case len(given) == 0:
		return false, nil
	case f.dir == "":
		return false, usageError{fmt.Errorf("%s: --raft-dir is missing, without which there is no group", strings.Join(given, ", "))}
	case nats == "":
		return false, usageError{errors.New("--raft-dir needs --nats: the embedded server would end with its coordinator")}
	}
	for _, name := range []string{"raft-id", "raft-peers", "raft-ca", "raft-cert", "raft-key"} {
		if flags.Lookup(name).Value.String() == "" {
			return false, usageError{fmt.Errorf("--raft-dir needs --%s too", name)}
		}
	}
	return true, nil
}

// givenPolicies are the policy flags that the command line or the environment gives, whatever their values.
func givenPolicies(flags *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	for _, name := range coordinator.Policies() {
		if flag := flags.Lookup(name); flag != nil && given(flags, name) {
			values[name] = flag.Value.String()
		}
	}
	return values
}

// open takes part in the group.
func (f *groupFlags) open(log func(format string, args ...any)) (*group.Node, error) {
	peers, err := group.ParsePeers(f.peers)
	if err != nil {
		return nil, usageError{fmt.Errorf("--raft-peers: %w", err)}
	}
	return group.Open(group.Options{
		Dir: f.dir, ID: f.id, Listen: f.listen, Peers: peers, Join: f.join, Remove: f.remove, Heartbeat: f.heartbeat,
		TLS: group.TLSFiles{CA: f.ca, Cert: f.cert, Key: f.key}, Log: log,
	})
}

func newCertificatesCommand() *cobra.Command {
	f := &groupFlags{}
	cmd := &cobra.Command{
		Use:   "certificates DIR",
		Short: "Make the certificates that the coordinators of a group prove themselves with",
		Long: `Makes a certificate authority in DIR and a certificate for each coordinator of --raft-peers, valid for the host of its address. What is
there already is kept, so a group gets another coordinator by calling it again with a longer list.

  moepool coordinator certificates certs --raft-peers a=10.0.0.1:7000,b=10.0.0.2:7000,c=10.0.0.3:7000

Coordinator a gets ca.pem, a.pem and a-key.pem; ca-key.pem stays where you keep secrets.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("one argument is needed, the folder, and %d were given (see %s --help)", len(args), cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return f.certificates(args[0]) },
	}
	f.registerPeers(cmd.Flags())
	return cmd
}

func (f *groupFlags) certificates(dir string) error {
	peers, err := group.ParsePeers(f.peers)
	if err != nil {
		return usageError{fmt.Errorf("--raft-peers: %w", err)}
	}
	written, err := group.WriteCertificates(dir, peers)
	for _, path := range written {
		fmt.Fprintln(os.Stdout, path)
	}
	if err == nil && len(written) == 0 {
		fmt.Fprintf(os.Stderr, "%s has them all already\n", dir)
	}
	return err
}
