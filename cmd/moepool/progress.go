package main

import (
	"os"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/transport"
)

// bars shows how far packing and loading are, on a terminal.
type bars struct {
	mu     sync.Mutex
	log    *logger
	output *mpb.Progress
	byName map[string]*mpb.Bar
}

// newBars shows nothing unless show is set and stderr is a terminal.
func newBars(log *logger, show bool) *bars {
	b := &bars{log: log, byName: map[string]*mpb.Bar{}}
	if show && isTerminal(os.Stderr) {
		b.output = mpb.New(mpb.WithOutput(os.Stderr), mpb.WithWidth(48))
		log.divert(b.output)
	}
	return b
}

// progress takes a report of the coordinator's start.
func (b *bars) progress(p coordinator.Progress) {
	if p.Workers == nil {
		b.bytes("dense weights", p.DenseDone, p.DenseTotal)
		return
	}
	for _, w := range p.Workers {
		if w.State == transport.StateLoading || w.State == transport.StateReady {
			b.bytes(w.Worker, w.LoadedBytes, w.TotalBytes)
			b.bytes(w.Worker+" warm-up", w.Residency.WarmDone, w.Residency.WarmTotal)
		}
	}
}

// bytes moves the bar of a name, creating it when it is first seen.
func (b *bars) bytes(name string, done, total int64) {
	b.set(name, done, total, decor.CountersKibiByte("% .1f / % .1f"), decor.AverageSpeed(decor.SizeB1024(0), "% .1f"))
}

// count is bytes for things that are counted.
func (b *bars) count(name string, done, total int64) {
	b.set(name, done, total, decor.CountersNoUnit("%d / %d"), decor.AverageETA(decor.ET_STYLE_GO))
}

func (b *bars) set(name string, done, total int64, counters, speed decor.Decorator) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.output == nil || total <= 0 {
		return
	}
	bar := b.byName[name]
	if bar == nil {
		bar = b.output.AddBar(total,
			mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR), counters),
			mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), speed))
		b.byName[name] = bar
	}
	bar.SetCurrent(done)
}

// finish removes unfinished bars and gives stderr back.
func (b *bars) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.output == nil {
		return
	}
	for _, bar := range b.byName {
		if !bar.Completed() {
			bar.Abort(false)
		}
	}
	b.output.Wait()
	b.log.divert(nil)
	b.output = nil
}
