package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"

	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/kernels"
	"github.com/moepool/moepool/transport"
)

// script drives epochs as coordinators do; all shards are nil.
type script struct {
	*testing.T
	epochs
}

func (s *script) assign(coordinator string, term, epoch uint64, load bool, parts ...uint32) {
	s.Helper()
	m := &transport.Assign{Coordinator: coordinator, Term: term, Epoch: epoch, Layers: []transport.LayerParts{{Parts: parts}}}
	if got := s.epochs.assign(m); got != load {
		s.Fatalf("assignment of epoch %d: load %v, want %v", epoch, got, load)
	}
}

func (s *script) load(parts ...uint32) bool {
	return s.loaded([]transport.LayerParts{{Parts: parts}}, nil, nil)
}

func (s *script) beats(n int, coordinator string, term, epoch uint64) {
	for range n {
		s.beat(&transport.CoordinatorBeat{Instance: coordinator, Term: term, Epoch: epoch})
	}
}

// expect compares the state, the served epochs, and how many are held in all.
func (s *script) expect(state transport.WorkerState, held int, serves ...uint64) {
	s.Helper()
	if got := s.serves(); s.state != state || len(s.held) != held || !slices.Equal(got, serves) {
		s.Fatalf("%s, serves %v, %d held; want %s, %v, %d", s.state, got, len(s.held), state, serves, held)
	}
}

// TestEpochs are the lives of assignments.
func TestEpochs(t *testing.T) {
	t.Parallel()
	const (
		idle, loading, ready, failed = transport.StateIdle, transport.StateLoading, transport.StateReady, transport.StateFailed
	)
	for name, run := range map[string]func(s *script){
		"moves": func(s *script) {
			s.assign("a", 1, 1, true, 1, 2)
			s.expect(loading, 0)
			s.load(1, 2)
			s.expect(ready, 1, 1)
			s.beats(5, "a", 1, 1)
			s.assign("a", 1, 2, true, 2, 3)
			s.expect(loading, 1, 1) // goes on serving
			s.beats(5, "a", 1, 1)
			s.load(2, 3)
			s.expect(ready, 2, 1, 2)
			s.beats(5, "a", 1, 1)
			s.expect(ready, 2, 1, 2)
			s.beats(1, "a", 1, 2)
			s.expect(ready, 2, 1, 2) // requests may be on their way
			s.beats(1, "a", 1, 2)
			s.expect(ready, 1, 2)
		},
		"others' beats": func(s *script) {
			s.assign("a", 1, 1, true, 1)
			s.load(1)
			s.assign("a", 1, 2, true, 2)
			s.load(2)
			s.beats(5, "b", 1, 2)
			s.beats(5, "a", 0, 2)
			s.beats(5, "a", 1, 0)
			s.expect(ready, 2, 1, 2)
		},
		"the same parts again": func(s *script) {
			s.assign("a", 1, 1, true, 1)
			s.load(1)
			s.assign("a", 1, 2, false, 1)
			s.expect(ready, 2, 1, 2)
			s.assign("a", 1, 2, false, 1) // repeated
			s.expect(ready, 2, 1, 2)
		},
		"failed": func(s *script) {
			s.assign("a", 1, 1, true, 1)
			s.load(1)
			s.assign("a", 1, 2, true, 2)
			s.loaded([]transport.LayerParts{{Parts: []uint32{2}}}, nil, errors.New("disk"))
			s.expect(failed, 1, 1)
			s.assign("a", 1, 2, true, 2) // tried again
			s.load(2)
			s.expect(ready, 2, 1, 2)
			if s.failure != "" {
				s.Fatal(s.failure)
			}
		},
		"superseded while it loads": func(s *script) {
			s.assign("a", 1, 1, true, 1)
			s.load(1)
			s.assign("a", 1, 2, true, 2)
			s.assign("a", 1, 3, true, 3)
			if s.load(2) {
				s.Fatal("the end of the former load was taken")
			}
			s.expect(loading, 1, 1)
			s.load(3)
			s.expect(ready, 2, 1, 3)
		},
		"superseded after it was loaded": func(s *script) {
			s.assign("a", 1, 1, true, 1)
			s.load(1)
			s.beats(2, "a", 1, 1)
			s.assign("a", 1, 2, true, 2)
			s.load(2)
			s.assign("a", 1, 3, true, 3)
			s.beats(1, "a", 1, 1)
			s.expect(loading, 2, 1, 2) // epoch 2 may have become active in the meantime
			s.beats(1, "a", 1, 1)
			s.expect(loading, 1, 1)
			s.load(3)
			s.expect(ready, 2, 1, 3)
		},
		"quicker than beats": func(s *script) {
			for epoch := uint64(1); epoch <= 5; epoch++ {
				s.assign("a", 1, epoch, true, uint32(epoch))
				s.load(uint32(epoch))
			}
			s.expect(ready, 3, 3, 4, 5)
			s.beats(1, "a", 1, 3)
			s.assign("a", 1, 6, true, 6)
			s.load(6)
			s.expect(ready, 3, 3, 5, 6) // the active one stays
			if !s.dropped {
				s.Fatal("what is dropped has to be given back")
			}
		},
		"active before it is loaded": func(s *script) {
			s.assign("a", 1, 1, true, 1)
			s.load(1)
			s.assign("a", 1, 2, true, 2)
			s.beats(5, "a", 1, 2)
			s.expect(loading, 1, 1)
			s.load(2)
			s.beats(1, "a", 1, 2)
			s.expect(ready, 1, 2)
		},
		"no place in the active plan": func(s *script) {
			s.assign("a", 1, 1, true, 1)
			s.load(1)
			s.beats(1, "a", 1, 2)
			if s.spare() {
				s.Fatal("an assignment may be on its way")
			}
			s.beats(spareBeats-2, "a", 1, 2)
			s.expect(ready, 1, 1)
			if !s.spare() {
				s.Fatal("not spare")
			}
			s.assign("a", 1, 3, true, 3)
			s.beats(2, "a", 1, 2)
			s.expect(loading, 0)
			s.load(3)
			s.beats(spareBeats, "a", 1, 4)
			s.expect(idle, 0)
		},
		"a new leader with an equal plan": func(s *script) {
			s.assign("a", 1, 7, true, 1)
			s.load(1)
			s.assign("a", 1, 8, true, 2)
			s.load(2)
			s.assign("b", 2, 7, false, 1)
			s.expect(ready, 2, 7)
			s.assign("b", 2, 8, false, 2) // it plans as the former one did
			s.expect(ready, 2, 7, 8)
			s.beats(2, "b", 2, 8)
			s.expect(ready, 1, 8)
		},
		"a new leader with another plan": func(s *script) {
			s.assign("a", 1, 7, true, 1)
			s.load(1)
			s.assign("b", 2, 7, true, 2)
			s.expect(loading, 1)
			s.keep()
			s.expect(loading, 0)
			s.load(2)
			s.expect(ready, 1, 7)
		},
		"leader again": func(s *script) {
			s.assign("a", 1, 7, true, 1)
			s.load(1)
			s.assign("a", 3, 7, false, 1)
			s.expect(ready, 1, 7)
			s.beats(9, "a", 1, 7)
			if s.active != 0 {
				s.Fatal("beats of the former term count")
			}
		},
		"silence": func(s *script) {
			s.assign("a", 9, 7, true, 1)
			s.load(1)
			s.assign("a", 9, 8, true, 2)
			s.free()
			s.expect(idle, 1)
			s.load(2)
			s.expect(idle, 2)
			s.assign("b", 1, 1, false, 2)
			s.expect(ready, 2, 1)
			s.beats(2, "b", 1, 1)
			s.expect(ready, 1, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(&script{T: t, epochs: epochs{state: idle}})
		})
	}
}

// known are works for all expert parts of each layer, with the sums of each part alone: those of several are added.
type known struct {
	works []*transport.Work
	sums  [][][]int64 // by layer, expert part
}

func (b *bench) known(f kernels.Format, parts int) *known {
	b.t.Helper()
	ref, k := b.reference(f, parts), &known{}
	for _, pl := range ref.Plan().Layers {
		w := ref.work(b.t, 0, 0, pl.Number, pl.Owned...)
		var sums [][]int64
		for _, id := range pl.Owned {
			var r transport.Result
			if err := ref.Compute(context.Background(), only(w, []uint32{id}), &r); err != nil {
				b.t.Fatal(err)
			}
			sums = append(sums, r.Sum)
		}
		k.works, k.sums = append(k.works, w), append(k.sums, sums)
	}
	return k
}

// ask is a work of an epoch for some parts of a layer, and its sums.
func (k *known) ask(epoch, term uint64, layer int, ids []uint32) (*transport.Work, []int64) {
	w := only(k.works[layer], ids)
	w.Epoch, w.Term = epoch, term
	total := make([]int64, w.Rows*w.Hidden)
	for _, id := range ids {
		for i, v := range k.sums[layer][id] {
			total[i] += v
		}
	}
	return w, total
}

// only is a work with some of its expert parts.
func only(w *transport.Work, ids []uint32) *transport.Work {
	some := *w
	some.Parts, some.Weights, some.Offsets = nil, nil, []uint32{0}
	for row := range w.Rows {
		for i := w.Offsets[row]; i < w.Offsets[row+1]; i++ {
			if slices.Contains(ids, w.Parts[i]) {
				some.Parts, some.Weights = append(some.Parts, w.Parts[i]), append(some.Weights, w.Weights[i])
			}
		}
		some.Offsets = append(some.Offsets, uint32(len(some.Parts)))
	}
	return &some
}

// planned is what the model of TestRandomEpochs knows of an epoch of the present coordinator.
type planned struct {
	layers []transport.LayerParts
	loaded bool // it must be served
	unsure bool // it may be given back at any time
}

// model says what a worker must, may and must not compute.
type model struct {
	*rapid.T
	p          *process
	known      *known
	coordinate string
	term       uint64
	newest     uint64 // 0: free
	epochs     map[uint64]*planned
}

// TestRandomEpochs: assignments, activations, new coordinators and works in any order. Whatever must be served is computed, with the same
// sums, also while other epochs load; nothing else is.
func TestRandomEpochs(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	k := b.known(kernels.Q8, 2)
	o := b.options("w0")
	o.Log = func(string, ...any) {}
	rapid.Check(t, func(rt *rapid.T) {
		o := o
		if err := o.validate(); err != nil {
			rt.Fatal(err)
		}
		h, err := hold(o, false)
		if err != nil {
			rt.Fatal(err)
		}
		p := newProcess(h)
		defer func() {
			p.stopLoading()
			if err := h.close(); err != nil {
				rt.Error(err)
			}
		}()
		m := &model{T: rt, p: p, known: k, coordinate: "c0", term: 1, epochs: map[uint64]*planned{}}
		identity := b.identity(kernels.Q8, 2)
		for range rapid.IntRange(5, 25).Draw(rt, "events") {
			switch rapid.IntRange(0, 9).Draw(rt, "event") {
			case 0, 1:
				m.assign(identity, m.newest+uint64(rapid.IntRange(0, 2).Draw(rt, "later")))
			case 2:
				m.activate()
			case 3, 4, 5:
				m.settle()
			case 6:
				m.newCoordinator()
			default:
				m.work()
			}
		}
		m.settle()
		for range 10 {
			m.work()
		}
	})
}

func (m *model) drawLayers() (layers []transport.LayerParts) {
	if len(m.epochs) > 0 && rapid.IntRange(0, 3).Draw(m.T, "as before") == 0 {
		return m.epochs[m.drawEpoch()].layers
	}
	for layer := range 3 {
		l := transport.LayerParts{Layer: layer}
		bits := rapid.Uint64Range(0, 1<<16-1).Draw(m.T, "parts")
		for id := range uint32(16) {
			if bits>>id&1 != 0 {
				l.Parts = append(l.Parts, id)
			}
		}
		layers = append(layers, l)
	}
	return layers
}

func (m *model) drawEpoch() uint64 {
	all := []uint64{}
	for epoch := range m.epochs {
		all = append(all, epoch)
	}
	slices.Sort(all)
	return rapid.SampledFrom(all).Draw(m.T, "epoch")
}

func (m *model) assign(identity transport.Identity, epoch uint64) {
	epoch = max(epoch, 1)
	layers := m.drawLayers()
	err := m.p.Assign(context.Background(), &transport.Assign{Coordinator: m.coordinate, Term: m.term, Epoch: epoch, Identity: identity, Layers: layers})
	if same := m.epochs[epoch]; m.newest == epoch && same != nil && !equalLayers(same.layers, layers) {
		var r *transport.RemoteError
		if !errors.As(err, &r) || r.Code != transport.CodeWrongEpoch {
			m.Fatalf("epoch %d again, with other parts: %v", epoch, err)
		}
		return
	}
	if err != nil {
		m.Fatal(err)
	}
	if m.newest != epoch {
		if m.newest != 0 && !m.epochs[m.newest].loaded {
			m.epochs[m.newest].unsure = true // it may have been loaded, or not
		}
		m.epochs[epoch] = &planned{layers: layers}
	}
	m.newest = epoch
	// More than three are not served.
	if len(m.epochs) > transport.MaxServed {
		for other, e := range m.epochs {
			e.unsure = e.unsure || other != epoch
		}
	}
}

// activate sends enough beats.
func (m *model) activate() {
	if m.newest == 0 {
		return
	}
	active := m.drawEpoch()
	for range steadyBeats {
		m.p.CoordinatorBeat(&transport.CoordinatorBeat{Instance: m.coordinate, Term: m.term, Epoch: active})
	}
	for epoch, e := range m.epochs {
		switch {
		case epoch < active && (m.epochs[active].loaded && !m.epochs[active].unsure || active < m.newest), active < epoch && epoch < m.newest:
			delete(m.epochs, epoch)
		case epoch < active:
			e.unsure = true // it depends on whether the active one is loaded already
		}
	}
}

// newCoordinator has another one take over: after silence, or with a higher term. It knows nothing of the former one's plans.
func (m *model) newCoordinator() {
	m.coordinate += "x"
	if rapid.Bool().Draw(m.T, "silence") {
		m.p.checkSilence(1000)
		m.term = uint64(rapid.IntRange(1, 3).Draw(m.T, "term"))
	} else {
		m.term++
	}
	free := m.p.beat().Coordinator == ""
	m.newest, m.epochs = 0, map[uint64]*planned{}
	w, _ := m.known.ask(1, m.term, 0, []uint32{0})
	if _, err := m.p.Work(context.Background(), w); free && err == nil {
		m.Fatal("work without an assignment is computed")
	}
	m.assign(m.p.identity, uint64(rapid.IntRange(1, 5).Draw(m.T, "first epoch")))
}

// settle waits until everything is loaded and given back; then the newest epoch is served, and what is held is what its plans own.
func (m *model) settle() {
	for {
		m.p.mu.Lock()
		tended := m.p.tended
		m.p.mu.Unlock()
		if tended == nil {
			break
		}
		<-tended
	}
	beat := m.p.beat()
	if m.newest == 0 {
		return
	}
	if beat.State != transport.StateReady || beat.Epoch != m.newest || !slices.Contains(beat.Serves, m.newest) || beat.LoadedBytes != beat.TotalBytes {
		m.Fatalf("epoch %d: %+v", m.newest, beat)
	}
	m.epochs[m.newest].loaded = true
	for epoch, e := range m.epochs {
		if !slices.Contains(beat.Serves, epoch) {
			if e.loaded && !e.unsure {
				m.Fatalf("epoch %d is not served: %v", epoch, beat.Serves)
			}
			if epoch != m.newest {
				delete(m.epochs, epoch)
			}
		}
	}
	for _, epoch := range beat.Serves {
		if m.epochs[epoch] == nil {
			m.Fatalf("epoch %d is served: %v", epoch, beat.Serves)
		}
	}
	held, shapes := int64(0), m.p.epochs.shards()[0].Plan().Shapes
	for layer := range 3 {
		for id := range uint32(16) {
			if slices.ContainsFunc(m.p.epochs.held, func(h heldEpoch) bool { return slices.Contains(h.layers[layer].Parts, id) }) {
				held += int64(shapes[id%2].Bytes())
			}
		}
	}
	if beat.Arena.Bytes != held {
		m.Fatalf("%d bytes are held, the epochs have %d", beat.Arena.Bytes, held)
	}
}

// work asks for some parts of any epoch.
func (m *model) work() {
	epoch, term, layer := uint64(rapid.IntRange(1, 9).Draw(m.T, "epoch of work")), m.term, rapid.IntRange(0, 2).Draw(m.T, "layer")
	if len(m.epochs) > 0 && rapid.IntRange(0, 4).Draw(m.T, "any") > 0 {
		epoch = m.drawEpoch()
	}
	if term > 0 && rapid.IntRange(0, 9).Draw(m.T, "stale") == 0 {
		term--
	}
	e := m.epochs[epoch]
	ids := []uint32{uint32(rapid.IntRange(0, 15).Draw(m.T, "part"))}
	if e != nil && rapid.IntRange(0, 4).Draw(m.T, "any part") > 0 && len(e.layers[layer].Parts) > 0 {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(m.T, "parts"), 0))
		ids = slices.DeleteFunc(slices.Clone(e.layers[layer].Parts), func(uint32) bool { return random.IntN(2) == 0 })
	}
	w, want := m.known.ask(epoch, term, layer, ids)
	r, err := m.p.Work(context.Background(), w)
	var refused *transport.RemoteError
	if err != nil && !errors.As(err, &refused) {
		m.Fatal(err)
	}
	what := fmt.Sprintf("work of epoch %d, term %d, layer %d, parts %v: %v", epoch, term, layer, ids, err)
	owned := e != nil && !slices.ContainsFunc(ids, func(id uint32) bool { return !slices.Contains(e.layers[layer].Parts, id) })
	switch {
	case err == nil && !slices.Equal(r.Sum, want):
		m.Fatalf("%s: other sums", what)
	case m.newest == 0:
		if err == nil {
			m.Fatal(what)
		}
	case term < m.term:
		if err == nil || refused.Code != transport.CodeStaleTerm {
			m.Fatal(what)
		}
	case e == nil:
		if err == nil || refused.Code != transport.CodeWrongEpoch {
			m.Fatal(what)
		}
	case !owned:
		if err == nil || e.loaded && !e.unsure && refused.Code != transport.CodeNotOwned {
			m.Fatal(what)
		}
	case err != nil && (e.loaded && !e.unsure || refused.Code != transport.CodeNotReady && refused.Code != transport.CodeWrongEpoch):
		m.Fatal(what)
	}
}
