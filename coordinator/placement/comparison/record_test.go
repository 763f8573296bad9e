package comparison_test

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/coordinator/budget"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/placement/comparison"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/coordinator/tokenizer"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
)

const (
	testdata = "../../../testdata/"
	window   = 256
)

var record = flag.Bool("record", false, "write the traces of testdata/routing anew (the one of the carved model only with MOEPOOL_CARVED)")

// TestRecord records the routing of models: the demo model on its held-out text; a synthetic model of 128 experts, random weights, on tokens drawn by Zipf's law;
// and a language model whose dense layers were carved into experts, on its held-out tokens. Without -record it checks a piece of the first against its file.
func TestRecord(t *testing.T) {
	text, err := os.ReadFile(testdata + "demo/heldout.txt")
	if err != nil {
		t.Fatal(err)
	}
	const demo = "../../../demo/qwen3moe-2m"
	words, err := tokenizer.Load(demo)
	if err != nil {
		t.Fatal(err)
	}
	ids := words.Encode(string(text), false)
	if !*record {
		ids = ids[:window]
	}
	recorded := recordTrace(t, demo, ids[:min(len(ids), 16*window)], nil)
	if !*record {
		stored := readTrace(t, "demo")
		for layer, rows := range recorded.Rows {
			// Another instruction set gives the same bits, so the same choices.
			if !slices.Equal(rows, stored.Rows[layer][:len(rows)]) {
				t.Errorf("layer %d: the routing isn't that of testdata/routing/demo.routing", layer)
			}
		}
		return
	}
	writeTrace(t, "demo", recorded)

	spec := synth.Tiny("qwen3_moe")
	spec.Experts, spec.TopK, spec.Layers, spec.Hidden, spec.Vocabulary, spec.DenseLayers, spec.SparseStep = 128, 8, 4, 256, 2048, nil, 1
	dir := t.TempDir() + "/model"
	if err := synth.Write(dir, spec, nil); err != nil {
		t.Fatal(err)
	}
	writeTrace(t, "synthetic", recordTrace(t, dir, zipfTokens(16*window, spec.Vocabulary), nil))

	dir = os.Getenv("MOEPOOL_CARVED")
	if dir == "" {
		return
	}
	var heldOut struct{ Chat, Prose [][]int32 }
	data, err := os.ReadFile(filepath.Join(dir, "heldout_ids.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &heldOut); err != nil {
		t.Fatal(err)
	}
	var mixed []int32
	for i := range min(len(heldOut.Chat), len(heldOut.Prose)) {
		mixed = append(append(mixed, heldOut.Chat[i]...), heldOut.Prose[i]...)
	}
	writeTrace(t, "carved", recordTrace(t, dir, mixed, []int{0, 6, 12, 18, 24, 29}))
}

func zipfTokens(n, vocabulary int) []int32 {
	r := rand.New(rand.NewPCG(5, 5))
	total := 0.0
	for rank := range vocabulary {
		total += 1 / float64(rank+1)
	}
	ids := make([]int32, n)
	for i := range ids {
		at := r.Float64() * total
		for rank := 0; rank < vocabulary-1; rank++ {
			if at -= 1 / float64(rank+1); at < 0 {
				break
			}
			ids[i]++
		}
	}
	return ids
}

// recordTrace runs windows of tokens through a model; layers nil is all.
func recordTrace(t *testing.T, dir string, ids []int32, layers []int) *comparison.Trace {
	t.Helper()
	cp, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Close()
	set, err := kernels.Select("")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := team.New(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer threads.Close()
	c := cp.Config()
	trace := &comparison.Trace{Experts: c.Experts, TopK: c.TopK, Rows: make([][]uint16, len(c.Layers))}
	e, err := engine.New(cp, engine.Options{Kernels: set, Team: threads, ExpertFormat: kernels.Q8, DenseFormat: kernels.Q8, Experts: packExperts(t, cp, set),
		Observer: func(layer int, choices []router.Choice) {
			for _, choice := range choices {
				for _, expert := range choice.Experts {
					trace.Rows[layer] = append(trace.Rows[layer], uint16(expert))
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for tokens := range slices.Chunk(ids, window) {
		s, err := e.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		outputs, err := e.Step(t.Context(), []engine.Chunk{{Sequence: s, Tokens: tokens, Phase: budget.Prefill, Logits: engine.AllLogits}})
		if err != nil || outputs[0].Err != nil {
			t.Fatal(err, outputs)
		}
		s.Close()
	}
	if layers != nil {
		var some [][]uint16
		for _, layer := range layers {
			some = append(some, trace.Rows[layer])
		}
		trace.Rows = some
	}
	return trace
}

// expertsHere computes routed experts in this process.
type expertsHere struct {
	set     *kernels.Set
	experts [][]kernels.Expert // [layer][expert]
}

func packExperts(t *testing.T, cp *checkpoint.Checkpoint, set *kernels.Set) *expertsHere {
	t.Helper()
	c := cp.Config()
	x := &expertsHere{set: set, experts: make([][]kernels.Expert, len(c.Layers))}
	shape := kernels.ExpertShape{Format: kernels.Q8, Hidden: c.Hidden, Intermediate: c.ExpertIntermediate}
	for layer := range c.Layers {
		for expert := range c.Experts {
			packed, names := shape.Split(make([]byte, shape.Bytes())), c.Expert(layer, expert)
			for name, m := range map[string]kernels.Matrix{names.Gate: packed.Gate, names.Up: packed.Up, names.Down: packed.Down} {
				w, err := cp.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := kernels.Pack(m, func(output int, dst []float32) { w.RowRange(output, 0, dst) }); err != nil {
					t.Fatal(err)
				}
			}
			x.experts[layer] = append(x.experts[layer], packed)
		}
	}
	return x
}

// Compute implements engine.Experts.
func (x *expertsHere) Compute(ctx context.Context, call *engine.ExpertCall) (engine.ExpertStats, error) {
	hidden := call.Rows.Columns
	for expert, p := range x.experts[call.Layer] {
		var rows []int32
		var weights []float32
		for row, c := range call.Choices {
			if i := slices.Index(c.Experts, int32(expert)); i >= 0 {
				rows, weights = append(rows, int32(row)), append(weights, c.Weights[i])
			}
		}
		width, index := p.Gate.Outputs, make([]int32, len(rows))
		gate, up, y := make([]float32, len(rows)*width), make([]float32, len(rows)*width), make([]float32, len(rows)*hidden)
		x.set.Multiply(gate, width, p.Gate, call.Rows, rows, 0, width)
		x.set.Multiply(up, width, p.Up, call.Rows, rows, 0, width)
		var inner kernels.Activations
		inner.Reset(true, len(rows), width)
		for i, row := range rows {
			index[i] = int32(i)
			g := gate[i*width : (i+1)*width]
			x.set.SiLUMultiply(g, g, up[i*width:(i+1)*width])
			if err := x.set.Prepare(&inner, i, g); err != nil {
				call.RowErr[row] = err
			}
		}
		x.set.Multiply(y, hidden, p.Down, &inner, index, 0, hidden)
		for i, row := range rows {
			if err := x.set.Accumulate(call.Sum[int(row)*hidden:(int(row)+1)*hidden], y[i*hidden:(i+1)*hidden], weights[i]); err != nil {
				call.RowErr[row] = err
			}
		}
	}
	return engine.ExpertStats{}, ctx.Err()
}

// Snapshot implements engine.Experts.
func (x *expertsHere) Snapshot() engine.Residency { return nil }

func readTrace(t testing.TB, name string) *comparison.Trace {
	t.Helper()
	f, err := os.Open(testdata + "routing/" + name + ".routing")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := comparison.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func writeTrace(t *testing.T, name string, trace *comparison.Trace) {
	t.Helper()
	f, err := os.Create(testdata + "routing/" + name + ".routing")
	if err != nil {
		t.Fatal(err)
	}
	if err := trace.Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// How uneven the first layer is.
	counts := trace.Counts()[0]
	t.Logf("%s: %d layers, %d rows; the experts of the first layer were chosen %g to %g times", name, len(trace.Rows), trace.Len(), slices.Min(counts),
		math.Round(slices.Max(counts)))
}
