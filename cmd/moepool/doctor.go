package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/cmd/moepool/internal/doctor"
)

func newDoctorCommand() *cobra.Command {
	var (
		model   modelFlags
		coord   coordinatorFlags
		arena   arenaFlags
		workers int
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can do, whether a model fits, and what to change",
		Long: `Looks at topology, limits, CPU features, memory policy permissions and the arena folder's disk, and with --model at whether
the model fits and where. Exit code 1 when something would fail.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, format, set, err := model.resolve(cmd.Context())
			if err != nil {
				return err
			}
			dense, kv, err := coord.formats(format)
			if err != nil {
				return err
			}
			arenaDir, err := arena.folder()
			if err != nil {
				return err
			}
			report, err := doctor.Check(cmd.Context(), doctor.Options{
				ModelDir: dir, Format: format, DenseFormat: dense, KVFormat: kv, Parts: model.parts, Context: coord.context,
				ArenaDir: arenaDir, Workers: workers, Kernels: set,
			})
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = report.Text(cmd.OutOrStdout())
			}
			if err == nil && report.Failed() {
				err = silentError{errors.New("something would fail")}
			}
			return err
		},
	}
	flags := cmd.Flags()
	model.register(flags)
	coord.registerSizes(flags)
	arena.register(flags)
	flags.IntVar(&workers, "workers", 0, "workers on this host (default: one per node)")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
