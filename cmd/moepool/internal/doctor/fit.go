package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/moepool/moepool/checkpoint"
	"github.com/moepool/moepool/coordinator/attention"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/model"
	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/worker"
)

// Fit is what a model takes on this host, in bytes.
type Fit struct {
	Dir         string      `json:"dir"`
	Family      string      `json:"family"`
	Format      string      `json:"format"`
	DenseFormat string      `json:"dense_format"`
	KVFormat    string      `json:"kv_format"`
	Layers      int         `json:"layers"`
	MoELayers   int         `json:"moe_layers"`
	Experts     int         `json:"experts"` // of a layer
	TopK        int         `json:"top_k"`
	Parts       int         `json:"parts"`
	Context     int         `json:"context"`
	ExpertBytes int64       `json:"expert_bytes"` // packed, of all experts
	TokenBytes  int64       `json:"token_bytes"`  // packed, of the experts that one token needs
	DenseBytes  int64       `json:"dense_bytes"`
	KVBytes     int64       `json:"kv_bytes"` // of one sequence of Context positions
	Workers     []WorkerFit `json:"workers"`
}

// WorkerFit is what one worker holds.
type WorkerFit struct {
	ID     string `json:"id"`
	Node   int    `json:"node"`
	Bytes  int64  `json:"bytes"`
	OnDisk int64  `json:"on_disk"` // bytes that its arena folder holds already
}

// onDisk is what the arena folders hold already.
func (f *Fit) onDisk() (bytes int64) {
	for _, w := range f.Workers {
		bytes += min(w.OnDisk, w.Bytes)
	}
	return bytes
}

// measure computes the sizes of a model. problem is what makes it unusable.
func measure(o *Options, facts *Facts) (fit *Fit, problem *Finding) {
	bad := func(err error, fix string) (*Fit, *Finding) {
		return nil, &Finding{Section: sectionModel, Level: Fail, Subject: "model", Text: err.Error(), Fix: fix}
	}
	cp, err := checkpoint.Open(o.ModelDir)
	if err != nil {
		return bad(err, "give --model a Hugging Face folder with config.json and safetensors files")
	}
	defer cp.Close()
	c := cp.Config()
	fit = &Fit{
		Dir: o.ModelDir, Family: c.Family, Format: o.Format.String(), DenseFormat: o.DenseFormat.String(), KVFormat: string(o.KVFormat),
		Layers: len(c.Layers), Experts: c.Experts, TopK: c.TopK, Parts: o.Parts, Context: o.Context,
	}
	if fit.Context == 0 {
		fit.Context = min(c.MaxPositions, engine.DefaultContext)
	}
	if fit.Context < 1 || fit.Context > c.MaxPositions {
		return bad(fmt.Errorf("a context of %d positions: the model has at most %d", fit.Context, c.MaxPositions),
			fmt.Sprintf("--context %d", c.MaxPositions))
	}
	shape := attention.Shape{Layers: len(c.Layers), KVHeads: c.KVHeads, HeadDim: c.HeadDim, Format: o.KVFormat}
	fit.KVBytes = int64(fit.Context) * int64(shape.PositionBytes())
	if fit.DenseBytes, err = model.Bytes(cp, o.DenseFormat); err != nil {
		return bad(err, "")
	}
	if most := kernels.MaxParts(o.Format, c.ExpertIntermediate); o.Parts < 1 || c.Experts > 0 && o.Parts > most {
		return bad(fmt.Errorf("%d parts: experts with %d intermediate columns can be divided into 1 to %d", o.Parts, c.ExpertIntermediate, most),
			fmt.Sprintf("--parts %d", max(1, most)))
	}
	if err := fit.place(o, facts, cp); err != nil {
		return bad(err, "")
	}
	return fit, nil
}

// place spreads the experts over the workers as the coordinator will.
func (f *Fit) place(o *Options, facts *Facts, cp *checkpoint.Checkpoint) error {
	c := cp.Config()
	m := placement.Model{Experts: c.Experts, Parts: o.Parts, TopK: c.TopK}
	for number, l := range c.Layers {
		if l.MoE {
			m.Layers = append(m.Layers, number)
		}
	}
	f.MoELayers = len(m.Layers)
	if f.MoELayers == 0 {
		return nil
	}
	var expert int64
	for part := range o.Parts {
		from, to := kernels.PartRange(o.Format, c.ExpertIntermediate, o.Parts, part)
		bytes := int64(kernels.ExpertShape{Format: o.Format, Hidden: c.Hidden, Intermediate: to - from}.Bytes())
		m.PartBytes = append(m.PartBytes, bytes)
		expert += bytes
	}
	f.ExpertBytes = expert * int64(c.Experts) * int64(f.MoELayers)
	f.TokenBytes = expert * int64(c.TopK) * int64(f.MoELayers)
	nodes := facts.Topology.ComputeNodes()
	if len(nodes) == 0 {
		return errors.New("no NUMA node has a CPU that this process may use")
	}
	workers := seats(nodes, o.Workers)
	plan, err := placement.Compute(1, m, workers, placement.Options{})
	if err != nil {
		return err
	}
	digest, err := cp.Digest()
	if err != nil {
		return err
	}
	for _, w := range workers {
		fit := WorkerFit{ID: w.ID, Node: w.Node, Bytes: plan.Bytes(m, w.ID)}
		if dir := worker.ArenaFolder(o.ArenaDir, digest, o.Format, o.Parts, w.ID); dir != "" {
			fit.OnDisk = allocated(dir)
		}
		f.Workers = append(f.Workers, fit)
	}
	return nil
}

// seats are the workers of this host, with the ids that they get by default.
func seats(nodes []numa.Node, n int) []placement.Worker {
	if n == 0 {
		n = len(nodes)
	}
	var workers []placement.Worker
	for i := range n {
		at := i % len(nodes)
		perNode := (n - at + len(nodes) - 1) / len(nodes)
		workers = append(workers, placement.Worker{ID: worker.DefaultID("", nodes[at].ID, i/len(nodes), perNode), Node: nodes[at].ID})
	}
	return workers
}

// allocated is the disk space of a folder's files; holes count nothing.
func allocated(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // no such folder yet
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += blocks(info)
		}
		return nil
	})
	return bytes
}
