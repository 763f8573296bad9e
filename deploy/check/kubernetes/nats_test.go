package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moepool/moepool/deploy/check/flags"
)

// The NATS server takes the files that its pod sees, with the arguments that it has there.
func TestServerTakesItsConfiguration(t *testing.T) {
	t.Parallel()
	m, err := Decode(render(t, "demo"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := flags.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server := filepath.Join(dir, "nats-server")
	build := exec.Command("go", "build", "-o", server, "github.com/nats-io/nats-server/v2")
	build.Dir, build.Env = filepath.Join(root, "deploy", "testbed"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building nats-server: %v: %s", err, out)
	}
	for _, w := range m.workloads() {
		if w.name != "StatefulSet nats" {
			continue
		}
		pod := w.template.Spec
		folder := filepath.Join(dir, "etc")
		write := func(name string, content []byte) {
			path := filepath.Join(folder, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range pod.Volumes {
			if v.Projected == nil {
				continue
			}
			for _, source := range v.Projected.Sources {
				if source.ConfigMap != nil {
					for name, text := range m.ConfigMaps[source.ConfigMap.Name].Data {
						write(name, []byte(text))
					}
				}
				if source.Secret != nil {
					for _, item := range source.Secret.Items {
						write(item.Path, m.Secrets[source.Secret.Name].Data[item.Key])
					}
				}
			}
		}
		arguments := strings.Split(strings.ReplaceAll(strings.Join(pod.Containers[0].Args, "\n"), "$(POD_NAME)", "nats-0"), "\n")
		check := exec.Command(server, append(arguments, "-t")...)
		check.Dir = folder
		out, err := check.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "configuration file") {
			t.Errorf("nats-server %v: %v: %s", arguments, err, out)
		}
		return
	}
	t.Fatal("no StatefulSet nats")
}
