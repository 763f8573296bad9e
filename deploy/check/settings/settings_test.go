// Package settings checks the environment files and units of deploy/systemd against the binary.
package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moepool/moepool/deploy/check/flags"
)

var assignment = regexp.MustCompile(`^#?([A-Z][A-Z0-9_]*)=`)

// Each variable of an environment file, those in comments too, belongs to a flag of its command.
func TestEnvironmentFiles(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"coordinator", "worker"} {
		found := 0
		for number, line := range lines(t, command+".env") {
			m := assignment.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			found++
			if err := flags.CheckVariable(command, m[1]); err != nil {
				t.Errorf("%s.env:%d: %v", command, number+1, err)
			}
		}
		if found < 5 {
			t.Errorf("%s.env: %d variables found", command, found)
		}
	}
}

// Each unit calls moepool with flags that exist, and lets a worker drain.
func TestUnits(t *testing.T) {
	t.Parallel()
	for unit, command := range map[string]string{"moepool-coordinator.service": "coordinator", "moepool-worker@.service": "worker"} {
		found := false
		for _, line := range lines(t, unit) {
			call, is := strings.CutPrefix(line, "ExecStart=/usr/local/bin/moepool ")
			if !is {
				continue
			}
			found = true
			if err := flags.Check(strings.Fields(call)); err != nil {
				t.Errorf("%s: %v", unit, err)
			}
			if name := strings.Fields(call)[0]; name != command {
				t.Errorf("%s calls moepool %s, want %s", unit, name, command)
			}
		}
		if !found {
			t.Errorf("%s: no ExecStart of moepool", unit)
		}
	}
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	root, err := flags.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", name))
	if err != nil {
		t.Fatal(fmt.Errorf("deploy/systemd: %w", err))
	}
	return strings.Split(string(text), "\n")
}
