package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
)

const demoModel = "../../../../demo/qwen3moe-2m"

func check(t *testing.T, o Options) *Report {
	t.Helper()
	o.Format, o.DenseFormat = kernels.Q8, kernels.Q8
	o.SpeedBytes = 4 << 20
	r, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Report) find(t *testing.T, section, subject string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Section == section && f.Subject == subject {
			return f
		}
	}
	t.Fatalf("no line %q in section %s: %+v", subject, section, r.Findings)
	return Finding{}
}

func TestCheckTheDemoModel(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	r := check(t, Options{ModelDir: demoModel, ArenaDir: dir, Workers: 3})
	if r.Failed() {
		t.Errorf("failed: %+v", r.Findings)
	}
	m := r.Model
	if len(m.Workers) != 3 || m.KVFormat != string(attention.BF16) {
		t.Errorf("fit %+v", m)
	}
	// All experts are somewhere, once.
	var bytes int64
	for _, w := range m.Workers {
		bytes += w.Bytes
	}
	if bytes != m.ExpertBytes || bytes == 0 {
		t.Errorf("workers hold %d bytes, the experts have %d", bytes, m.ExpertBytes)
	}
	// As the model's config.json says: 5 layers of 16 experts, hidden 128, intermediate 64.
	if want := 5 * 16 * int64(kernels.ExpertShape{Format: kernels.Q8, Hidden: 128, Intermediate: 64}.Bytes()); m.ExpertBytes != want {
		t.Errorf("%d bytes of experts, want %d", m.ExpertBytes, want)
	}
	if want := m.ExpertBytes * int64(m.TopK) / int64(m.Experts); m.TokenBytes != want {
		t.Errorf("a token reads %d bytes, want %d", m.TokenBytes, want)
	}
	if runtime.GOOS == "linux" && r.Host.Arena.Speed <= 0 && r.Host.Arena.SpeedError == "" && !r.Host.Arena.inMemory() {
		t.Errorf("the disk was not measured: %+v", r.Host.Arena)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the arena folder was made: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(filepath.Dir(filepath.Dir(dir))))
	if err != nil || len(left) != 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
	// The JSON has what the text has.
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &again, cmpopts.IgnoreUnexported(numa.Topology{}), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestCheckTheHostOnly(t *testing.T) {
	t.Parallel()
	r := check(t, Options{ArenaDir: "none"})
	if r.Model != nil || r.Failed() || r.Host.Arena.Dir != "" {
		t.Errorf("%+v", r)
	}
	r.find(t, "host", "kernels")
	if f := r.find(t, "arena", "folder"); !strings.Contains(f.Text, "anonymous memory") {
		t.Errorf("%+v", f)
	}
}

func TestCheckBadModels(t *testing.T) {
	t.Parallel()
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "config.json"), []byte(`{"model_type": "nobody"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    Options
		text []string
		fix  string
	}{
		{"no folder", Options{ModelDir: filepath.Join(broken, "none")}, []string{"no such file"}, "--model"},
		{"unknown family", Options{ModelDir: broken}, []string{"nobody"}, "--model"},
		{"too many parts", Options{ModelDir: demoModel, Parts: 1000}, []string{"1000 parts"}, "--parts"},
		{"negative parts", Options{ModelDir: demoModel, Parts: -1}, []string{"-1 parts"}, "--parts"},
		{"too long a context", Options{ModelDir: demoModel, Context: 1 << 30}, []string{"context of 1073741824"}, "--context"},
	} {
		r := check(t, c.o)
		f := r.find(t, "model", "model")
		if !r.Failed() || f.Level != Fail || r.Model != nil {
			t.Errorf("%s: %+v", c.name, f)
		}
		for _, text := range c.text {
			if !strings.Contains(f.Text, text) {
				t.Errorf("%s: %q does not contain %q", c.name, f.Text, text)
			}
		}
		if !strings.Contains(f.Fix, c.fix) {
			t.Errorf("%s: change %q, want %q", c.name, f.Fix, c.fix)
		}
	}
}

func TestCheckABadArenaFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := check(t, Options{ModelDir: demoModel, ArenaDir: filepath.Join(file, "arena")})
	if f := r.find(t, "arena", "folder"); f.Level != Warn || !strings.Contains(f.Text, "file") {
		t.Errorf("%+v", f)
	}
	if r.Failed() {
		t.Errorf("experts fit into memory, yet: %+v", r.Findings)
	}
}

func TestCheckBadOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"workers":   {Workers: -1},
		"formats":   {ModelDir: demoModel},
		"kv format": {KVFormat: "q1"},
	} {
		if _, err := Check(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ended, Options{SpeedBytes: -1}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestSeats(t *testing.T) {
	t.Parallel()
	nodes := []numa.Node{{ID: 0}, {ID: 2}}
	var got []int
	ids := map[string]bool{}
	for _, w := range seats(nodes, 3) {
		got = append(got, w.Node)
		ids[w.ID] = true
	}
	if diff := cmp.Diff([]int{0, 2, 0}, got); diff != "" || len(ids) != 3 {
		t.Error(diff, ids)
	}
	if n := len(seats(nodes, 0)); n != 2 {
		t.Errorf("%d workers, want one per node", n)
	}
}

func TestAllocated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if n := allocated(filepath.Join(dir, "none")); n != 0 {
		t.Errorf("no folder: %d bytes", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "holes"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(1 << 30); err != nil {
		t.Fatal(err)
	}
	if n := allocated(dir); runtime.GOOS == "linux" && (n > 2<<20) {
		t.Errorf("%d bytes: holes were counted", n)
	}
}
