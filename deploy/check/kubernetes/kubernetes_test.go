package kubernetes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/moepool/moepool/deploy/check/flags"
)

// render builds an overlay with the kustomize of this module. .ci/deploy has made the keys.
func render(t *testing.T, overlay string) []byte {
	t.Helper()
	root, err := flags.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "deploy/kubernetes/keys/made/raft/ca.pem")); err != nil {
		t.Fatalf("%v: run deploy/kubernetes/keys/make first", err)
	}
	build := exec.Command("go", "tool", "kustomize", "build", filepath.Join(root, "deploy/kubernetes/overlays", overlay))
	var problem bytes.Buffer
	build.Stderr = &problem
	out, err := build.Output()
	if err != nil {
		t.Fatalf("kustomize build %s: %v: %s", overlay, err, problem.Bytes())
	}
	if problem.Len() > 0 {
		t.Errorf("kustomize build %s warns: %s", overlay, problem.Bytes())
	}
	return out
}

func TestOverlays(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"demo", "qwen3-30b"} {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			m, err := Decode(render(t, overlay))
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range Verify(m) {
				t.Error(problem)
			}
			for _, s := range m.StatefulSets {
				if *s.Spec.Replicas != replicas {
					t.Errorf("StatefulSet %s has %d replicas, the checks look at %d", s.Name, *s.Spec.Replicas, replicas)
				}
			}
			if len(m.workloads()) != 3 || len(m.Budgets) != 3 || len(m.Namespaces) != 1 {
				t.Errorf("%d workloads, %d budgets, %d namespaces, want 3, 3, 1", len(m.workloads()), len(m.Budgets), len(m.Namespaces))
			}
			reach := map[string]bool{
				"worker nats client": true, "coordinator nats client": true, "coordinator coordinator raft": true, "nats nats routes": true,
				"worker coordinator raft": false, "worker coordinator http": false, "worker nats routes": false, "nats coordinator raft": false,
				"worker worker client": false, "coordinator nats monitor": false,
			}
			for path, want := range reach {
				w := strings.Fields(path)
				if got := m.Reaches(m.labels(t, w[0]), m.labels(t, w[1]), w[2]); got != want {
					t.Errorf("%s reaches port %s of %s: %v, want %v", w[0], w[2], w[1], got, want)
				}
			}
		})
	}
}

func (m *Manifests) labels(t *testing.T, name string) map[string]string {
	t.Helper()
	for _, w := range m.workloads() {
		if strings.HasSuffix(w.name, " "+name) {
			return w.template.Labels
		}
	}
	t.Fatalf("no workload %s", name)
	return nil
}

// Each mistake must be found: the checks are no decoration.
func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	good := string(render(t, "qwen3-30b"))
	for _, mistake := range []struct{ old, new, want string }{
		{"replicas: 3", "replicsa: 3", "unknown field"},
		{"kind: PodDisruptionBudget", "kind: PodDisruptionBadget", "no kind"},
		{"- --all-nodes", "- --all-noddes", "no flag --all-noddes"},
		{"MOEPOOL_FORMAT:", "MOEPOOL_FORMATS:", "no such flag"},
		{"secretName: worker-keys-", "secretName: worker-kys-", "does not exist"},
		{"key: route.pem", "key: root.pem", "has no root.pem"},
		{"memory: 48Gi", "memory: 47Gi", "not Guaranteed"},
		{"/etc/moepool/raft/$(POD_NAME)-key.pem", "/etc/moepool/raft/$(POD_NAME).key", "is not mounted"},
		{"targetPort: raft", "targetPort: rift", "is none of"},
		{"terminationGracePeriodSeconds: 75", "terminationGracePeriodSeconds: 30", "before a drain"},
		{"serviceName: nats", "serviceName: nets", "no headless service"},
		{"path: /healthz\n            port: http", "path: /healthz\n            port: htp", "a probe asks"},
	} {
		bad := strings.Replace(good, mistake.old, mistake.new, 1)
		if bad == good {
			t.Errorf("%q is not in the manifests", mistake.old)
			continue
		}
		m, err := Decode([]byte(bad))
		found := err != nil && strings.Contains(err.Error(), mistake.want)
		if err == nil {
			found = slices.ContainsFunc(Verify(m), func(p string) bool { return strings.Contains(p, mistake.want) })
		}
		if !found {
			t.Errorf("%q → %q was not found (%v)", mistake.old, mistake.new, err)
		}
	}
}

// The kubelet's settings have no unknown field, and reserve what is allocatable nowhere else: the Memory Manager refuses to start otherwise.
func TestKubeletSettings(t *testing.T) {
	t.Parallel()
	root, err := flags.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/kubernetes/kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c kubelet.KubeletConfiguration
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		t.Fatal(err)
	}
	if c.CPUManagerPolicy != "static" || c.MemoryManagerPolicy != "Static" || c.ReservedSystemCPUs == "" {
		t.Errorf("policies %q, %q, reserved CPUs %q", c.CPUManagerPolicy, c.MemoryManagerPolicy, c.ReservedSystemCPUs)
	}
	reserved, want := int64(0), int64(0)
	for _, node := range c.ReservedMemory {
		memory := node.Limits["memory"]
		reserved += memory.Value()
	}
	for _, s := range []string{c.SystemReserved["memory"], c.KubeReserved["memory"], c.EvictionHard["memory.available"]} {
		want += quantity(t, s)
	}
	if reserved != want {
		t.Errorf("reservedMemory is %d in all, must be systemReserved + kubeReserved + evictionHard = %d", reserved, want)
	}
}
