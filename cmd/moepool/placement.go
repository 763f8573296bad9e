package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/transport"
)

func newPlacementCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "placement",
		Short: "Show which worker holds which experts, or place them anew",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%s needs a command: show or rebalance (see %s --help)", cmd.CommandPath(), cmd.CommandPath())}
		},
	}
	cmd.AddCommand(newPlacementShowCommand(), newRebalanceCommand())
	return cmd
}

// placementFlags are the flags of `placement show`.
type placementFlags struct {
	nats   natsFlags
	asJSON bool
	layer  int
}

func newPlacementShowCommand() *cobra.Command {
	f := &placementFlags{}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show which worker holds which experts",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.nats.register(flags)
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object, with the experts of all layers")
	flags.IntVar(&f.layer, "layer", -1, "list the experts of this layer")
	return cmd
}

func (f *placementFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	client, err := f.nats.admin(ctx, "moepool placement")
	if err != nil {
		return err
	}
	defer client.conn.Close()
	p := &serve.Placement{}
	if err := client.ask(ctx, transport.AdminPlacement, nil, p); err != nil {
		return err
	}
	if f.layer != -1 && !slices.Contains(p.Layers, f.layer) {
		return usageError{fmt.Errorf("--layer is %d; layers with experts: %v", f.layer, p.Layers)}
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), p)
	}
	printPlacement(cmd.OutOrStdout(), p, f.layer)
	return nil
}

// printPlacement prints a table; layer -1 lists no experts.
func printPlacement(out io.Writer, p *serve.Placement, layer int) {
	fmt.Fprintf(out, "placement %d: %d layers of %s in %s", p.Epoch, len(p.Layers), counted(p.Experts, "expert"), counted(p.Parts, "part"))
	if p.Reason != "" {
		fmt.Fprintf(out, " (%s)", p.Reason)
	}
	fmt.Fprintln(out)
	if n := p.Pending; n != nil {
		fmt.Fprintf(out, "placement %d is next, %s: %s to load (%s)\n", n.Epoch, n.Phase, bytesize.Text(n.Moved), n.Reason)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "HOST\tNODE\tWORKER\tPARTS\tPRIMARY\tREPLICAS\tBYTES"
	if layer >= 0 {
		head += fmt.Sprintf("\tLAYER %d", layer)
	}
	fmt.Fprintln(table, head)
	for _, w := range p.Workers {
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%d\t%d\t%s", w.Host, w.Node, w.ID, w.Parts, w.Primaries, w.Parts-w.Primaries, bytesize.Text(w.Bytes))
		if layer >= 0 {
			fmt.Fprintf(table, "\t%s", w.Owned[layer])
		}
		fmt.Fprintln(table)
	}
	table.Flush()
}

func newRebalanceCommand() *cobra.Command {
	f := &backgroundFlags{}
	cmd := &cobra.Command{
		Use:   "rebalance",
		Short: "Place the experts anew, by the routing that was observed",
		Long: `Asks the coordinator for a new placement of the experts on the present workers. They load what it gives them while requests go on, in the
same bits; then it becomes active between two tokens. It waits for that.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, "moepool placement rebalance", transport.AdminRebalance, nil, rebalanced)
		},
	}
	f.register(cmd)
	return cmd
}

// rebalanced says whether a newer placement is active, and else how far it is.
func rebalanced(before, now *serve.Status) (bool, string, error) {
	m := &now.Members
	switch {
	case m.Active != nil && before.Members.Active != nil && m.Active.Epoch > before.Members.Active.Epoch:
		return true, fmt.Sprintf("placement %d is active", m.Active.Epoch), nil
	case m.Pending != nil:
		return false, fmt.Sprintf("placement %d is %s, %s to load (%s)", m.Pending.Epoch, m.Pending.Phase, bytesize.Text(m.Pending.Moved), m.Pending.Reason), nil
	case m.Problem != "" && m.Problem != before.Members.Problem:
		return false, "", fmt.Errorf("no new placement: %s", m.Problem)
	}
	for _, e := range m.Events { // a plan that is the active one has no epoch
		if e.Kind == membership.EventPlan && e.Epoch == 0 && e.Time.After(before.Members.Time) {
			return true, e.Text, nil
		}
	}
	if m.Ready && m.Term != before.Members.Term {
		return false, "", fmt.Errorf("the coordinator that was asked leads no more, and the one that leads now places nothing anew: ask again")
	}
	return false, "", nil
}
