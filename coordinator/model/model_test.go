package model

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func synthetic(t *testing.T, s synth.Spec) *checkpoint.Checkpoint {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := synth.Write(dir, s, nil); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func open(t *testing.T, dir string) *checkpoint.Checkpoint {
	t.Helper()
	cp, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Close() })
	return cp
}

func load(t *testing.T, cp *checkpoint.Checkpoint, format kernels.Format) *Model {
	t.Helper()
	tm, err := team.New(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	var last, total int64
	m, err := Load(cp, format, tm, func(done, of int64) {
		if done <= last || done > of || total != 0 && of != total {
			t.Errorf("progress %d of %d after %d of %d", done, of, last, total)
		}
		last, total = done, of
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	want, err := Bytes(cp, format)
	if err != nil || m.Bytes() != want || last != want || total != want {
		t.Errorf("%d bytes packed, progress up to %d of %d, want %d: %v", m.Bytes(), last, total, want, err)
	}
	return m
}

// equalTensor checks that a float matrix holds exactly what the checkpoint does.
func equalTensor(t *testing.T, cp *checkpoint.Checkpoint, name string, m kernels.Matrix, format kernels.Format) {
	t.Helper()
	w, err := cp.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	if m.Format != format || m.Outputs*m.Columns != len(w.Float32()) {
		t.Fatalf("%s is a %v matrix [%d, %d]", name, m.Format, m.Outputs, m.Columns)
	}
	got, want := make([]float32, m.Columns), make([]float32, m.Columns)
	for o := range m.Outputs {
		m.Unpack(o, got)
		if m.Outputs == 1 {
			copy(want, w.Float32())
		} else {
			w.Row(o, want)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("row %d of %s differs", o, name)
		}
	}
}

func equalVector(t *testing.T, cp *checkpoint.Checkpoint, name string, got []float32) {
	t.Helper()
	if name == "" {
		if got != nil {
			t.Errorf("%d numbers where there is no tensor", len(got))
		}
		return
	}
	w, err := cp.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, w.Float32()) {
		t.Errorf("%s differs", name)
	}
}

func TestLoadKeepsEveryWeight(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		family string
		dtype  checkpoint.DType
		stored kernels.Format // of routers
		tied   bool
	}{
		{"qwen2_moe", checkpoint.BF16, kernels.BF16, false},
		{"qwen3_moe", checkpoint.F16, kernels.F32, true},
		{"mixtral", checkpoint.F32, kernels.F32, false},
	} {
		t.Run(test.family, func(t *testing.T) {
			t.Parallel()
			spec := synth.Tiny(test.family)
			spec.DType, spec.TiedEmbedding = test.dtype, test.tied
			spec.Vocabulary = 2*sliceOutputs + 17 // an LM head of several slices
			cp := synthetic(t, spec)
			c := cp.Config()
			m := load(t, cp, kernels.F32)
			equalVector(t, cp, c.FinalNorm, m.FinalNorm)
			equalTensor(t, cp, c.LMHead, m.Head, kernels.F32)
			if m.Embedding.Name != c.Embedding || test.tied != (c.LMHead == c.Embedding) {
				t.Errorf("embedding %s, LM head %s", m.Embedding.Name, c.LMHead)
			}
			for i, l := range m.Layers {
				names := c.Layer(i)
				equalVector(t, cp, names.InputNorm, l.InputNorm)
				equalVector(t, cp, names.PostAttentionNorm, l.PostAttentionNorm)
				equalVector(t, cp, names.QNorm, l.QNorm)
				equalVector(t, cp, names.KNorm, l.KNorm)
				for _, p := range []struct {
					Projection
					name, bias string
				}{{l.Q, names.Q, names.QBias}, {l.K, names.K, names.KBias}, {l.V, names.V, names.VBias}, {l.O, names.O, names.OBias}} {
					equalTensor(t, cp, p.name, p.Matrix, kernels.F32)
					equalVector(t, cp, p.bias, p.Bias)
				}
				if l.Window != c.Layers[i].SlidingWindow || (l.Router != nil) != c.Layers[i].MoE || (l.Dense != nil) == c.Layers[i].MoE {
					t.Errorf("layer %d: window %d, router %v, dense %v", i, l.Window, l.Router != nil, l.Dense != nil)
				}
				if l.Dense != nil {
					equalTensor(t, cp, names.DenseGate, l.Dense.Gate, kernels.F32)
					equalTensor(t, cp, names.DenseUp, l.Dense.Up, kernels.F32)
					equalTensor(t, cp, names.DenseDown, l.Dense.Down, kernels.F32)
					continue
				}
				equalTensor(t, cp, names.Router, *l.Router, test.stored)
				if (l.Shared != nil) != (test.family == "qwen2_moe") || (l.SharedGate != nil) != (l.Shared != nil) {
					t.Fatalf("layer %d: shared expert %v, its gate %v", i, l.Shared != nil, l.SharedGate != nil)
				}
				if l.Shared != nil {
					equalTensor(t, cp, names.SharedGateProj, l.Shared.Gate, kernels.F32)
					equalTensor(t, cp, names.SharedUpProj, l.Shared.Up, kernels.F32)
					equalTensor(t, cp, names.SharedDownProj, l.Shared.Down, kernels.F32)
					equalTensor(t, cp, names.SharedGateGate, *l.SharedGate, test.stored)
				}
			}
		})
	}
}

// Packing in slices on several threads gives the bytes of packing at once.
func TestSlicesEqualWhole(t *testing.T) {
	t.Parallel()
	spec := synth.Tiny("mixtral")
	spec.Vocabulary, spec.Layers = 2*sliceOutputs+17, 1
	cp := synthetic(t, spec)
	m := load(t, cp, kernels.Q8)
	w, err := cp.Tensor(cp.Config().LMHead)
	if err != nil {
		t.Fatal(err)
	}
	whole := m.Head
	whole.Data = make([]byte, len(m.Head.Data))
	if err := kernels.Pack(whole, w.Row); err != nil {
		t.Fatal(err)
	}
	if string(whole.Data) != string(m.Head.Data) {
		t.Error("other bytes")
	}
}

// A weight that can't be packed is named with its file and tensor, and nothing stays allocated.
func TestLoadErrorNamesTensor(t *testing.T) {
	t.Parallel()
	spec := synth.Tiny("mixtral")
	spec.DType = checkpoint.F32
	cp := synthetic(t, spec)
	path := filepath.Join(cp.Dir(), "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const name = "model.layers.1.self_attn.v_proj.weight"
	var header map[string]struct {
		Offsets []int `json:"data_offsets"`
	}
	size := int(data[0]) | int(data[1])<<8 | int(data[2])<<16
	if err := json.Unmarshal(data[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	at := 8 + size + header[name].Offsets[0]
	copy(data[at+4*(192*33+5):], []byte{0, 0, 0x80, 0x7f}) // +Inf in row 33, column 5
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	tm, err := team.New(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tm.Close()
	_, err = Load(open(t, cp.Dir()), kernels.Q8, tm, nil)
	if !errors.Is(err, kernels.ErrWeight) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{name, path, "layer 1", "row 33, column 5"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
