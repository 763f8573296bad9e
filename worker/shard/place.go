package shard

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/numa"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/transport"
)

// strictShare is the part of pages that must be local under StrictNUMA.
const strictShare = 0.95

// slotPages is where an expert part's pages lay when last looked at.
type slotPages struct{ local, remote atomic.Int64 }

func (p *slotPages) known() bool { return p.local.Load()+p.remote.Load() > 0 }

// placement is the totals over all expert parts.
type placement struct {
	local, remote atomic.Int64
	failed        atomic.Pointer[string] // why pages can't be looked at
}

func (p *placement) report() transport.PagesReport {
	return transport.PagesReport{Local: p.local.Load(), Remote: p.remote.Load()}
}

// forget takes a slot that is given back out of the totals.
func (p *placement) forget(s *slotPages) {
	p.local.Add(-s.local.Swap(0))
	p.remote.Add(-s.remote.Swap(0))
}

// locate looks where an expert part's pages lie and moves those that lie elsewhere; populated pages only, so the part was just
// written or brought in. It keeps the totals.
func (h *Holder) locate(part residency.Part) {
	if h.o.Node < 0 || h.pages.failed.Load() != nil {
		return
	}
	a, slot := h.slotOf(part)
	data := a.Bytes(slot)
	if len(data) == 0 {
		return
	}
	found, err := numa.Locate(data, h.o.Node)
	if err == nil && (found.Remote > 0 || found.Absent > 0) {
		found, err = numa.Migrate(data, h.o.Node)
	}
	if err != nil {
		text := err.Error()
		h.pages.failed.CompareAndSwap(nil, &text)
		return
	}
	p := &h.held(part.Layer).pages[part.ID]
	h.pages.local.Add(found.Local - p.local.Swap(found.Local))
	h.pages.remote.Add(found.Remote - p.remote.Swap(found.Remote))
}

// prefer asks for the node's memory for a whole mapping, which holds for tmpfs and anonymous memory; files on a disk follow the threads'
// policy. Whether it helped is seen by looking at the pages, so an error says nothing more.
func (h *Holder) prefer(a *arena.Arena) {
	if h.o.Node < 0 {
		return
	}
	for _, m := range a.Mappings() {
		_ = numa.Prefer(m, h.o.Node, h.o.StrictNUMA)
	}
}

// place looks at a layer's pages after loading: what was packed now, and what the page cache already held, wherever another process
// had brought it in. Parts that are on disk only are looked at when they are read (bring), and those that another plan has loaded were
// looked at then.
func (s *Shards) place(ctx context.Context, c crew, l *layer, pl PlanLayer, packed []bool) error {
	if s.h.o.Node < 0 {
		return nil
	}
	return c.Run(len(pl.Owned), func(i, _ int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := pl.Owned[i]
		if a, slot := l.slot(id); packed[id] || !l.held.pages[id].known() && a.Resident(slot) {
			s.h.locate(residency.Part{Layer: l.number, ID: id})
		}
		return nil
	})
}

// checkPlaces judges the totals after loading.
func (s *Shards) checkPlaces() error {
	if s.h.o.Node < 0 {
		return nil
	}
	if why := s.h.pages.failed.Load(); why != nil {
		if s.h.o.StrictNUMA {
			return fmt.Errorf("--strict-numa: where pages lie can't be found out: %s", *why)
		}
		s.note("where pages lie can't be found out: %s", *why)
		return nil
	}
	p := s.h.Pages()
	if all := p.Local + p.Remote; float64(p.Local) < strictShare*float64(all) {
		what := fmt.Sprintf("%d of %d pages of experts lie on other nodes than %d (%.1f %% local)", p.Remote, all, s.h.o.Node, 100*float64(p.Local)/float64(all))
		if s.h.o.StrictNUMA {
			return fmt.Errorf("--strict-numa: %s", what)
		}
		s.note("%s", what)
	}
	return nil
}

// note keeps a degraded mode for the beats and says it.
func (s *Shards) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.notes = append(s.notes, text)
	s.h.o.Log("warning: %s", text)
}
