package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// version is set by the Makefile (-ldflags "-X main.version=...").
var version = ""

// buildVersion names this build: the linked version, else the module's, else the commit.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "commit-" + s.Value[:12]
		}
	}
	return "development"
}

type versionReport struct {
	Version  string   `json:"version"`
	Protocol int      `json:"protocol"`
	Layout   int      `json:"layout"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Kernels  []string `json:"kernels"`
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the protocol and the kernels that this CPU runs",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := versionReport{
				Version: buildVersion(), Protocol: transport.ProtocolVersion, Layout: kernels.LayoutVersion,
				Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Kernels: kernels.Available(),
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "moepool %s (protocol %d, layout %d, %s, %s, kernels %v)\n",
				r.Version, r.Protocol, r.Layout, r.Go, r.Platform, r.Kernels)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
