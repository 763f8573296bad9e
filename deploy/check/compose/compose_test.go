// Package compose checks deploy/container/compose.yaml with the loader that Docker Compose itself uses, and against the binary.
package compose

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/moepool/moepool/deploy/check/flags"
)

// load reads files as Compose does: schema, interpolation, references and consistency.
func load(t *testing.T, environment map[string]string, files ...string) (*types.Project, error) {
	t.Helper()
	root, err := flags.Root()
	if err != nil {
		t.Fatal(err)
	}
	details := types.ConfigDetails{WorkingDir: filepath.Join(root, "deploy", "container"), Environment: environment}
	for _, f := range files {
		details.ConfigFiles = append(details.ConfigFiles, types.ConfigFile{Filename: filepath.Join(details.WorkingDir, f)})
	}
	return loader.LoadWithContext(t.Context(), details, func(o *loader.Options) { o.Profiles = []string{"client"} })
}

func TestServices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files       []string
		environment map[string]string
	}{
		{[]string{"compose.yaml"}, map[string]string{"MOEPOOL_NATS_TOKEN": "secret"}},
		{[]string{"compose.yaml", "compose.model.yaml"}, map[string]string{"MOEPOOL_NATS_TOKEN": "secret", "MOEPOOL_MODEL_FOLDER": "/srv/models/x"}},
	} {
		project, err := load(t, test.environment, test.files...)
		if err != nil {
			t.Fatalf("%v: %v", test.files, err)
		}
		names := project.ServiceNames()
		slices.Sort(names)
		if want := []string{"client", "coordinator", "nats", "worker-a", "worker-b"}; !slices.Equal(names, want) {
			t.Fatalf("%v: services %v, want %v", test.files, names, want)
		}
		for name, service := range project.Services {
			if !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") {
				t.Errorf("service %s is not confined", name)
			}
			if name == "nats" {
				continue
			}
			line := append(slices.Clone([]string(service.Entrypoint)), service.Command...)
			if len(service.Entrypoint) > 0 {
				line = line[1:] // the binary
			}
			if err := flags.Check(line); err != nil {
				t.Errorf("service %s: %v", name, err)
				continue
			}
			for variable, value := range service.Environment {
				if err := flags.CheckVariable(line[0], variable); err != nil {
					t.Errorf("service %s: %v", name, err)
				}
				if value == nil || *value == "" {
					t.Errorf("service %s: variable %s is empty", name, variable)
				}
			}
			if _, named := service.Environment["MOEPOOL_MODEL"]; named != (len(test.files) == 2 && name != "client") {
				t.Errorf("%v: service %s: a model is named: %v", test.files, name, named)
			}
			if name != "client" && !slices.Contains(service.CapAdd, "SYS_NICE") {
				t.Errorf("service %s can't bind its memory", name)
			}
		}
	}
}

// A forgotten secret is an error, not an open server.
func TestTokenIsNeeded(t *testing.T) {
	t.Parallel()
	if _, err := load(t, map[string]string{}, "compose.yaml"); err == nil {
		t.Error("Compose starts without MOEPOOL_NATS_TOKEN")
	}
}
