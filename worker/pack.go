package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/transport"
	"github.com/moepool/moepool/worker/shard"
)

// PackReport says what Pack did.
type PackReport struct {
	Worker  string         `json:"worker"`
	Folder  string         `json:"folder"`
	Experts int            `json:"experts"` // expert parts
	Damaged int            `json:"damaged"` // found by verify, packed again
	Arena   arena.Counters `json:"arena"`
}

// Pack builds a worker's arenas ahead of time, with the code that the worker itself uses; o.Connect and o.ParentPipe are not used. verify
// reads all slots and compares them with their checksums. progress may be nil.
func Pack(ctx context.Context, o Options, layers []transport.LayerParts, verify bool, progress func(ready, total int64)) (report *PackReport, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if ArenaFolder(o.ArenaDir, "", o.Format, o.Parts, o.ID) == "" {
		return nil, errors.New("packing needs a folder (--arena-dir)")
	}
	h, err := hold(o, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if h.store.Dir() == "" {
		return nil, fmt.Errorf("the arena folder under %s can't be used", o.ArenaDir)
	}
	plan, err := h.plan(layers)
	if err != nil {
		return nil, err
	}
	shards, err := h.holder.Load(ctx, shard.Loading{Plan: plan, Memory: func() shard.Memory { return h.memory }, Progress: progress})
	if err != nil {
		return nil, err
	}
	report = &PackReport{Worker: o.ID, Folder: h.store.Dir(), Experts: plan.Count}
	if verify {
		if report.Damaged, err = shards.BringAll(ctx); err != nil {
			return nil, err
		}
	}
	report.Arena = h.store.Counters()
	if report.Arena.Fallbacks > 0 {
		return report, fmt.Errorf("%d arenas found no room in %s", report.Arena.Fallbacks, report.Folder)
	}
	return report, nil
}
