package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker"
)

// packFlags are the flags of `pack`.
type packFlags struct {
	model   modelFlags
	arena   arenaFlags
	workers int
	verify  bool
	asJSON  bool
}

func newPackCommand() *cobra.Command {
	f := &packFlags{}
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Build the arenas of this host's workers ahead of time",
		Long: `Packs the experts into the arena files that "moepool run" with the same --model, --format, --parts and --workers maps at its
start. Placement is the one that run computes.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.model.register(flags)
	f.arena.register(flags)
	flags.IntVar(&f.workers, "workers", 0, "workers to pack for, dealt to the NUMA nodes in turn (default: one per node)")
	flags.BoolVar(&f.verify, "verify", false, "read every packed expert and compare it with its checksum; damaged ones are packed again")
	flags.BoolVar(&f.asJSON, "json", false, "print an array of rows")
	return cmd
}

func (f *packFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	dir, format, set, err := f.model.resolve(ctx)
	if err != nil {
		return err
	}
	arenaDir, err := f.arena.folder()
	if err != nil {
		return err
	}
	if arenaDir == "" {
		return usageError{errors.New("--arena-dir none: there is nothing to pack into")}
	}
	seats, plan, err := f.plan(dir, format)
	if err != nil {
		return err
	}
	log := newLogger(true)
	bars := newBars(log, !f.asJSON)
	defer bars.finish()
	reports := []*worker.PackReport{}
	for _, s := range seats {
		report, err := worker.Pack(ctx, worker.Options{
			ID: s.id(), ModelDir: dir, Format: format, Parts: f.model.parts, Node: s.node.ID, Index: s.index, PerNode: s.perNode,
			Kernels: set, ArenaDir: arenaDir, StrictNUMA: f.arena.strictNUMA, Log: log.Printf, Version: buildVersion(),
		}, layerParts(plan.Owned[s.id()]), f.verify, func(ready, total int64) { bars.bytes(s.id(), ready, total) })
		if err != nil {
			return fmt.Errorf("worker %s: %w", s.id(), err)
		}
		reports = append(reports, report)
	}
	bars.finish()
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), reports)
	}
	for _, r := range reports {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d experts, %s packed, %s found packed, %d damaged, in %s\n",
			r.Worker, r.Experts, bytesize.Text(r.Arena.PackedBytes), bytesize.Text(r.Arena.ReusedBytes), r.Damaged, r.Folder)
	}
	return nil
}

// plan computes what run would give to its workers.
func (f *packFlags) plan(dir string, format kernels.Format) ([]workerSeat, *placement.Plan, error) {
	cp, err := checkpoint.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer cp.Close()
	if err := coordinator.CheckParts(format, cp.Config(), f.model.parts); err != nil {
		return nil, nil, err
	}
	topology, err := numa.Read()
	if err != nil {
		return nil, nil, err
	}
	seats, err := seatWorkers(topology.ComputeNodes(), f.workers)
	if err != nil {
		return nil, nil, err
	}
	workers := make([]placement.Worker, len(seats))
	for i, s := range seats {
		workers[i] = placement.Worker{ID: s.id(), Node: s.node.ID}
	}
	plan, err := placement.Compute(1, coordinator.PlacementModel(cp.Config(), format, f.model.parts), workers, placement.Options{})
	return seats, plan, err
}

// layerParts sorts a worker's expert parts by layer.
func layerParts(owned map[int][]uint32) []transport.LayerParts {
	var layers []transport.LayerParts
	for _, layer := range slices.Sorted(maps.Keys(owned)) {
		layers = append(layers, transport.LayerParts{Layer: layer, Parts: owned[layer]})
	}
	return layers
}
