package shard

import (
	"slices"

	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// A pair is one row of the work at one expert part. Pairs are sorted by expert part, then row, and cut into tasks; consecutive
// tasks that are computed together are a wave. Sums are integers, so no cut changes a bit.

// task is some rows of one expert part.
type task struct {
	id       uint32  // expert·parts+part
	index    int     // of that part in the request's
	rows     []int32 // of the work
	weights  []float32
	identity []int32 // 0, 1, ...: the rows inside intermediate

	expert       kernels.Expert
	gate         []float32           // [rows, Intermediate]: gate product, then silu(gate)·up
	intermediate kernels.Activations // the same rows prepared for the down product
	gathered     kernels.Gathered    // of intermediate
	remaining    counter             // gate jobs that have not ended; the last one prepares the rows
}

// limits bound the scratch memory of a task and a wave, and the parts that are being read, whatever the size of a request.
type limits struct {
	taskRows  int
	waveBytes int // of float32 intermediates
	readers   int // at a time
}

var defaultLimits = limits{taskRows: 1024, waveBytes: 32 << 20, readers: readersAtOnce}

const (
	manyRows      = 16 // of a task
	blocksPerJob  = 4  // at most, with fewer rows: 128 outputs
	jobsPerThread = 8  // at least, where there are enough blocks
)

// group sorts the pairs of a work by expert part: parts, first, rows and weights of the scratch are set.
func (c *scratch) group(w *transport.Work, expertParts int) {
	c.count = resize(c.count, expertParts)
	clear(c.count)
	for _, id := range w.Parts {
		c.count[id]++
	}
	c.parts, c.first = c.parts[:0], c.first[:0]
	total := int32(0)
	for id, n := range c.count {
		if n == 0 {
			continue
		}
		c.parts = append(c.parts, uint32(id))
		c.first = append(c.first, total)
		c.count[id] = total // from here on: where the next pair of this part goes
		total += n
	}
	c.first = append(c.first, total)
	c.rows = resize(c.rows, int(total))
	c.weights = resize(c.weights, int(total))
	for r := range w.Rows {
		for i := w.Offsets[r]; i < w.Offsets[r+1]; i++ {
			at := c.count[w.Parts[i]]
			c.count[w.Parts[i]]++
			c.rows[at], c.weights[at] = int32(r), w.Weights[i]
		}
	}
}

// cut makes the tasks of the pairs whose expert parts are here; group came before.
func (c *scratch) cut(limit int) {
	c.tasks = c.tasks[:0]
	longest := 0
	for i, id := range c.parts {
		if c.state[i] != here {
			continue
		}
		for from, to := int(c.first[i]), int(c.first[i+1]); from < to; from += limit {
			end := min(to, from+limit)
			c.tasks = append(c.tasks, task{id: id, index: i, rows: c.rows[from:end], weights: c.weights[from:end]})
			longest = max(longest, end-from)
		}
	}
	for i := len(c.identity); i < longest; i++ {
		c.identity = append(c.identity, int32(i))
	}
}

// cutWave gives the number of leading tasks whose intermediates fit into the limit, at least one, and gives each its expert and its
// room in the scratch.
func (s *Shards) cutWave(l *layer, tasks []task) (n int, err error) {
	c := &s.h.scratch
	values, codes, scales, arranged, terms := 0, 0, 0, 0, 0
	for n < len(tasks) {
		t := &tasks[n]
		if t.expert, err = s.expert(l, t.id); err != nil {
			return 0, err
		}
		columns := t.expert.Gate.Outputs
		if n > 0 && (values+len(t.rows)*columns)*4 > s.h.limits.waveBytes {
			break
		}
		values += len(t.rows) * columns
		codes += roundUp(len(t.rows)*kernels.PaddedColumns(columns), 64)
		scales += len(t.rows) * kernels.Groups(columns)
		a, b := kernels.GatheredSize(len(t.rows), columns)
		arranged, terms = arranged+a, terms+b
		n++
	}
	c.gate = resize(c.gate, values)
	quantized := tasks[0].expert.Down.Format.Quantized()
	if quantized {
		c.codes = resize(c.codes, codes)
		c.scales = resize(c.scales, scales)
		c.arranged = resize(c.arranged, arranged)
		c.terms = resize(c.terms, terms)
	} else {
		c.prepared = resize(c.prepared, values)
	}
	values, codes, scales, arranged, terms = 0, 0, 0, 0, 0
	for i := range tasks[:n] {
		t := &tasks[i]
		rows, columns := len(t.rows), t.expert.Gate.Outputs
		t.identity = c.identity[:rows]
		t.gate = c.gate[values : values+rows*columns]
		t.intermediate = kernels.Activations{Rows: rows, Columns: columns, Quantized: quantized}
		if quantized {
			padded, groups := kernels.PaddedColumns(columns), kernels.Groups(columns)
			t.intermediate.Codes = c.codes[codes : codes+rows*padded]
			t.intermediate.Scales = c.scales[scales : scales+rows*groups]
			codes += roundUp(rows*padded, 64)
			scales += rows * groups
			a, b := kernels.GatheredSize(rows, columns)
			t.gathered.Codes, t.gathered.Terms = c.arranged[arranged:arranged:arranged+a], c.terms[terms:terms:terms+b]
			arranged, terms = arranged+a, terms+b
		} else {
			t.intermediate.Values = c.prepared[values : values+rows*columns]
		}
		values += rows * columns
	}
	return n, nil
}

// gateJob is an output range of one task's gate and up products.
type gateJob struct{ task, from, to int }

// cutGate makes the jobs of a wave's gate and up products: blocks of outputs, few enough that every thread gets several jobs, but as many
// as that allows where there are many rows, so that the rows are gathered once.
func (c *scratch) cutGate(tasks []task, threads int) {
	total := 0
	for i := range tasks {
		total += blocksOf(tasks[i].expert.Gate.Outputs) * blockCost(len(tasks[i].rows))
	}
	c.gateJobs = c.gateJobs[:0]
	for i := range tasks {
		t := &tasks[i]
		width := kernels.BlockOutputs * max(1, total/(threads*jobsPerThread*blockCost(len(t.rows))))
		if len(t.rows) < manyRows {
			width = min(width, kernels.BlockOutputs*blocksPerJob)
		}
		outputs, jobs := t.expert.Gate.Outputs, 0
		for from := 0; from < outputs; from += width {
			c.gateJobs = append(c.gateJobs, gateJob{i, from, min(outputs, from+width)})
			jobs++
		}
		t.remaining.set(jobs)
	}
}

// blockCost is about how long a block of outputs takes with so many rows: reading its weights takes as long as computing some rows.
func blockCost(rows int) int { return 16 + rows }

// outputs gives the part of a matrix that computes outputs [from, to), from a multiple of BlockOutputs: blocks of outputs lie one
// after the other.
func outputs(m kernels.Matrix, from, to int) kernels.Matrix {
	size := func(n int) int { return kernels.MatrixBytes(m.Format, n, m.Columns) }
	return kernels.Matrix{Format: m.Format, Outputs: to - from, Columns: m.Columns, Data: m.Data[size(from):size(to)]}
}

func blocksOf(outputs int) int { return (outputs + kernels.BlockOutputs - 1) / kernels.BlockOutputs }

// jobWidth is the number of outputs of one job.
func jobWidth(blocks, threads int) int {
	return kernels.BlockOutputs * min(blocksPerJob, max(1, blocks/(jobsPerThread*threads)))
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// resize gives a slice of n elements, whose contents are undefined, reusing memory.
func resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
