package synth_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/internal/leaks"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func write(t *testing.T, s synth.Spec) *checkpoint.Checkpoint {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := synth.Write(dir, s, nil); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestTinyModelsOpen(t *testing.T) {
	t.Parallel()
	for _, family := range synth.Families() {
		for _, dtype := range []checkpoint.DType{"", checkpoint.F16, checkpoint.F32} {
			s := synth.Tiny(family)
			s.DType = dtype
			c := write(t, s).Config()
			if c.Family != family || c.Hidden != 192 || c.ExpertIntermediate != 160 || c.Experts != 8 || c.TopK != 3 || len(c.Layers) != 3 {
				t.Errorf("%s %s: %+v", family, dtype, c)
			}
			if dense := !c.Layers[1].MoE; dense != (family != "mixtral") || !c.Layers[0].MoE || !c.Layers[2].MoE {
				t.Errorf("%s: layers %+v", family, c.Layers)
			}
		}
	}
}

// Each released shape opens, cut to few layers and narrow matrices so that it is quick; the rest of the shape stays.
func TestModelsOpen(t *testing.T) {
	t.Parallel()
	for _, name := range synth.Models() {
		s, err := synth.Like(name)
		if err != nil {
			t.Fatal(err)
		}
		bytes, tensors, err := s.Size()
		if err != nil || bytes < 20e9 || tensors < s.Layers*s.Experts {
			t.Errorf("%s: %d bytes in %d tensors, %v", name, bytes, tensors, err)
		}
		s.Layers, s.Vocabulary, s.Hidden, s.Heads, s.KVHeads, s.HeadDim = 2, 300, 32, 2, 1, 16
		s.ExpertIntermediate, s.DenseIntermediate = 8, min(s.DenseIntermediate, 8)
		s.SharedIntermediate = min(s.SharedIntermediate, 8)
		c := write(t, s).Config()
		if c.Experts != s.Experts || c.TopK != s.TopK || c.NormalizeTopK != s.NormalizeTopK || c.RopeTheta != s.RopeTheta {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// The published sizes of the real models, in parameters.
func TestModelsHaveTheirPublishedSize(t *testing.T) {
	t.Parallel()
	for name, parameters := range map[string]float64{
		"qwen3-30b-a3b": 30.5e9, "qwen3-235b-a22b": 235e9, "qwen2-57b-a14b": 57.4e9, "qwen1.5-moe-a2.7b": 14.3e9,
		"mixtral-8x7b": 46.7e9, "mixtral-8x22b": 140.6e9,
	} {
		s, err := synth.Like(name)
		if err != nil {
			t.Fatal(err)
		}
		bytes, _, err := s.Size()
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(bytes) / 2; math.Abs(got/parameters-1) > 0.005 {
			t.Errorf("%s has %.3g parameters, published are %.3g", name, got, parameters)
		}
	}
}

// The bytes are the same on every machine, with any number of goroutines: these sums are part of the contract.
func TestBytesAreFixed(t *testing.T) {
	t.Parallel()
	sums := map[checkpoint.DType]string{
		checkpoint.BF16: "987cac9b8e71c38c",
		checkpoint.F16:  "c5b8b4959a1a935a",
		checkpoint.F32:  "d5a77f6027cf8f10",
	}
	for dtype, want := range sums {
		s := synth.Tiny("qwen2_moe")
		s.DType = dtype
		data, err := os.ReadFile(filepath.Join(write(t, s).Dir(), "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:8]); got != want {
			t.Errorf("%s: sum %s, want %s", dtype, got, want)
		}
	}
}

func TestSeedsAndTensorsDiffer(t *testing.T) {
	t.Parallel()
	s := synth.Tiny("mixtral")
	first := write(t, s)
	s.Seed++
	second := write(t, s)
	names := first.Config().Expert(0, 0)
	a, b, c := mustTensor(t, first, names.Gate), mustTensor(t, second, names.Gate), mustTensor(t, first, names.Up)
	if string(a.Data) == string(b.Data) || string(a.Data) == string(c.Data) {
		t.Error("two tensors that should differ are equal")
	}
}

func mustTensor(t *testing.T, c *checkpoint.Checkpoint, name string) checkpoint.Tensor {
	t.Helper()
	tensor, err := c.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	return tensor
}

func TestWeightsAreNormal(t *testing.T) {
	t.Parallel()
	for _, dtype := range []checkpoint.DType{checkpoint.BF16, checkpoint.F16, checkpoint.F32} {
		s := synth.Tiny("qwen3_moe")
		s.DType, s.Deviation = dtype, 0.02
		c := write(t, s)
		values := mustTensor(t, c, c.Config().Embedding).Float32()
		var sum, squares float64
		beyond := 0
		for _, v := range values {
			x := float64(v) / 0.02
			sum += x
			squares += x * x
			if math.Abs(x) > 1.96 {
				beyond++
			}
		}
		n := float64(len(values))
		if mean := sum / n; math.Abs(mean) > 4/math.Sqrt(n) {
			t.Errorf("%s: mean %v", dtype, mean)
		}
		if variance := squares / n; math.Abs(variance-1) > 0.02 {
			t.Errorf("%s: variance %v", dtype, variance)
		}
		if share := float64(beyond) / n; math.Abs(share-0.05) > 0.004 {
			t.Errorf("%s: a share of %v lies beyond 1.96, expected 0.05", dtype, share)
		}
		for _, v := range mustTensor(t, c, c.Config().FinalNorm).Float32() {
			if v != 1 {
				t.Fatalf("norm weight %v", v)
			}
		}
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	s := synth.Tiny("qwen3_moe")
	whole := write(t, s)
	s.ShardBytes = 300_000
	sharded := write(t, s)
	if files, _ := filepath.Glob(filepath.Join(sharded.Dir(), "model-*-of-*.safetensors")); len(files) < 5 {
		t.Fatalf("only %d shards", len(files))
	}
	for _, name := range whole.Names() {
		if string(mustTensor(t, whole, name).Data) != string(mustTensor(t, sharded, name).Data) {
			t.Errorf("%s differs between one file and shards", name)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	s := synth.Tiny("mixtral")
	want, _, err := s.Size()
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	err = synth.Write(filepath.Join(t.TempDir(), "model"), s, func(done, total int64) {
		if done <= last || total != want {
			t.Errorf("progress from %d to %d of %d, expected a total of %d", last, done, total, want)
		}
		last = done
	})
	if err != nil || last != want {
		t.Errorf("ended at %d of %d: %v", last, want, err)
	}
}
