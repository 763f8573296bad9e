package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/kernels/team"
	"github.com/moepool/moepool/numa"
)

func allowedCPUs(t *testing.T) []int {
	t.Helper()
	topology, err := numa.Read()
	if err != nil {
		t.Fatal(err)
	}
	return topology.ComputeNodes()[0].Cores
}

// Each way of reading touches each byte of a share once, whatever reads.
func TestReadShareCoversAll(t *testing.T) {
	t.Parallel()
	data := make([]byte, 4*callBytes)
	for _, p := range patterns {
		seen := make([]byte, len(data)/128)
		m := &Machine{loops: loops{read: reader{read: func(got []byte, places [4]int, ahead, step, iterations int) uint64 {
			if ahead != p.ahead {
				t.Fatalf("%+v: prefetches %d ahead", p, ahead)
			}
			for range iterations {
				for i, at := range places {
					seen[at/128]++
					places[i] += step
				}
			}
			return 0
		}}}}
		if err := m.readShare(t.Context(), data, p.streams, p.ahead); err != nil {
			t.Fatal(err)
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("%+v: line %d is read %d times", p, i, n)
			}
		}
	}
}

// The best reader checks bounds, since its assembly doesn't.
func TestReaderRefusesTooMuch(t *testing.T) {
	t.Parallel()
	for _, l := range []loops{plainLoops, bestLoops()} {
		data := make([]byte, 1024)
		l.read.read(data, [4]int{0, 128, 256, 384}, 0, 512, 2)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s reads beyond the end", l.read.feature)
				}
			}()
			l.read.read(data, [4]int{0, 128, 256, 385}, 0, 512, 2)
		}()
	}
}

// All loops that this CPU has run, can be stopped, and give rows that say so.
func TestMachine(t *testing.T) {
	t.Parallel()
	cpus := allowedCPUs(t)
	for _, l := range []loops{plainLoops, bestLoops()} {
		m := NewMachine(cpus, 4<<20, Memory{})
		m.loops, m.Passes, m.Time = l, 2, 100*time.Microsecond
		var rows []Row
		roof, err := m.Measure(t.Context(), 1, func(r Row) { rows = append(rows, r) })
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 3 || rows[0].Kernels != l.read.feature || *rows[0].GBPS != roof.GBPS || rows[1].Kernels != l.int8.feature ||
			*rows[1].GOPS != roof.Int8 || *rows[2].GOPS != roof.Float || roof.GBPS <= 0 || roof.Int8 <= 0 || roof.Float <= 0 {
			t.Errorf("%+v: %+v", roof, rows)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Measure(ctx, 1, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	m := NewMachine(cpus, 1<<30, Memory{Available: 1 << 20})
	if _, err := m.Measure(t.Context(), 1, nil); err == nil {
		t.Error("memory that is not there is taken")
	}
	m = NewMachine(cpus, 1000, Memory{})
	if _, err := m.Measure(t.Context(), 1, nil); err == nil {
		t.Error("reads less than a call's memory")
	}
}

// Loops of multiply-adds can be stopped for a collection.
func TestLoopsArePreemptible(t *testing.T) {
	t.Parallel()
	l := bestLoops()
	for _, run := range []func(int){l.int8.run, l.float.run} {
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
					run(iterationsPerCall)
				}
			}
		}()
		for range 3 {
			runtime.GC()
		}
		close(stop)
		<-ended
	}
}

// A variant of an expert has the same rows in another order, and differs from the others.
func TestWeightsVary(t *testing.T) {
	t.Parallel()
	for _, f := range kernels.Formats() {
		shape := kernels.ExpertShape{Format: f, Hidden: 128, Intermediate: 96}
		w, err := newWeights(shape)
		if err != nil {
			t.Fatal(err)
		}
		unpack := func(m kernels.Matrix) (rows [][]float32) {
			for o := range m.Outputs {
				row := make([]float32, m.Columns)
				m.Unpack(o, row)
				rows = append(rows, row)
			}
			return rows
		}
		variant := make([]byte, shape.Bytes())
		w.vary(variant, 1)
		if slices.Equal(variant, w.data) {
			t.Errorf("%v: variant 1 is the expert itself", f)
		}
		for i, pair := range [][2]kernels.Matrix{
			{shape.Split(w.data).Gate, shape.Split(variant).Gate},
			{shape.Split(w.data).Up, shape.Split(variant).Up},
			{shape.Split(w.data).Down, shape.Split(variant).Down},
		} {
			before, after := unpack(pair[0]), unpack(pair[1])
			slices.SortFunc(before, slices.Compare)
			slices.SortFunc(after, slices.Compare)
			if !slices.EqualFunc(before, after, slices.Equal) {
				t.Errorf("%v: matrix %d of the variant has other rows", f, i)
			}
		}
	}
}

// A layer's calls have valid work for each number of rows, whatever the format, and rows that add up.
func TestLayer(t *testing.T) {
	t.Parallel()
	tm, err := team.New(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tm.Close()
	for _, f := range kernels.Formats() {
		for _, name := range kernels.Available() {
			set, err := kernels.Select(name)
			if err != nil {
				t.Fatal(err)
			}
			l := Layer{
				Shape: LayerShape{Experts: 5, TopK: 2, Hidden: 64, FFN: 96, Layers: 2, Format: f}, Rows: []int{1, 3}, Kernels: set, Team: tm, Node: -1,
				Effort: Effort{Calls: 4}, Roofline: Roofline{GBPS: 1, Int8: 1, Float: 1}, Log: t.Logf,
			}
			var rows []Row
			if err := l.Run(t.Context(), func(r Row) { rows = append(rows, r) }); err != nil {
				t.Fatalf("%v %s: %v", f, name, err)
			}
			if len(rows) != 2 || rows[0].Rows != 1 || rows[1].Rows != 3 || rows[1].Format != f.String() || rows[1].Kernels != name || rows[1].Threads != 2 {
				t.Fatalf("%v %s: %+v", f, name, rows)
			}
			// One row needs two experts: time · GB/s is their size.
			if bytes, want := *rows[0].BestMS**rows[0].GBPS*1e6, float64(2*l.Shape.expert().Bytes()); bytes < want*0.999 || bytes > want*1.001 {
				t.Errorf("%v %s: %v bytes, want %v", f, name, bytes, want)
			}
		}
	}
}

func TestLayerRefusals(t *testing.T) {
	t.Parallel()
	good := LayerShape{Experts: 4, TopK: 2, Hidden: 64, FFN: 64, Layers: 1, Format: kernels.Q8}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*LayerShape){
		func(s *LayerShape) { s.Experts = 0 }, func(s *LayerShape) { s.TopK = 5 }, func(s *LayerShape) { s.Hidden = -1 },
		func(s *LayerShape) { s.FFN = 1 << 30 }, func(s *LayerShape) { s.Layers = 0 },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
	huge := LayerShape{Experts: 1 << 16, TopK: 1, Hidden: 1 << 18, FFN: 1 << 18, Layers: 1 << 10, Format: kernels.F32}
	l := Layer{Shape: huge, Rows: []int{1 << 20}, Memory: Memory{Available: 1 << 40}}
	if err := l.Run(t.Context(), func(Row) {}); err == nil {
		t.Error("memory that is not there is taken")
	}
}

func TestMultiply(t *testing.T) {
	t.Parallel()
	set, err := kernels.Select("")
	if err != nil {
		t.Fatal(err)
	}
	m := Multiply{
		Outputs: 64, Columns: 96, Rows: []int{1, 2}, Formats: kernels.Formats(), Sets: []*kernels.Set{set}, CPU: allowedCPUs(t)[0],
		Bytes: 1 << 20, Effort: Effort{Calls: 2}, Roofline: Roofline{GBPS: 1, Int8: 1, Float: 1},
	}
	var rows []Row
	if err := m.Run(t.Context(), func(r Row) { rows = append(rows, r) }); err != nil {
		t.Fatal(err)
	}
	if len(rows) != m.Count() || rows[0].Test != "cache" || rows[1].Test != "memory" || rows[2].Rows != 2 {
		t.Errorf("%d rows, want %d: %+v", len(rows), m.Count(), rows)
	}
}

// The committed assembly is what the generator writes. It needs bash and the generator's modules.
func TestAssemblyIsWhatTheGeneratorWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED with -short: builds the assembly generator")
	}
	if _, err := os.ReadFile("_asm/main.go"); err != nil { // read here, so that go test's cache notices a change
		t.Fatal(err)
	}
	download := exec.Command("go", "mod", "download")
	download.Dir, download.Env = "_asm", append(os.Environ(), "GOWORK=off")
	if output, err := download.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: the generator's modules can't be fetched: %v\n%s", err, output)
	}
	if output, err := exec.Command("bash", "_asm/generate.sh", "-check").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\nrun cmd/moepool/internal/bench/_asm/generate.sh and commit the result", err, output)
	}
}
