package residency

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, name := range Names {
		if p, err := Parse(name); err != nil || p.String() != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if Default.String() != Names[0] {
		t.Errorf("the default is %v, the first name %s", Default, Names[0])
	}
	if _, err := Parse("fifo"); err == nil || !strings.Contains(err.Error(), `"fifo"`) || !strings.Contains(err.Error(), strings.Join(Names, ", ")) {
		t.Errorf("an unknown name: %v", err)
	}
}

const (
	rounds = 400
	layers = 8
	parts  = 32
	hot    = 4 // parts of each layer, of which a token uses 3; a fourth part is any other one
)

// skewed is the token's request in each layer.
func skewed(r *rand.Rand) []uint32 {
	ids := []uint32{uint32(hot + r.IntN(parts-hot))}
	without := r.IntN(hot)
	for id := range hot {
		if id != without {
			ids = append(ids, uint32(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// TestRoundsOfLayers: with room for 3 of 32 parts of each layer, where a token uses 4, LRU has dropped most of a layer when it comes again; policies that know how often
// parts are used keep the hot ones.
func TestRoundsOfLayers(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][2]float64{"lru": {0, 0.2}, "lfu": {0.4, 0.7}, "next-use": {0.4, 0.7}} {
		l := newTestLedger(t, policy, 10*3*layers, layers, parts)
		r := rand.New(rand.NewPCG(3, 4))
		var before Counters
		for i := range 2 * rounds {
			if i == rounds {
				before = l.Counters()
			}
			for layer := range layers {
				l.Request(layer, skewed(r))
			}
		}
		after := l.Counters()
		rate := float64(after.Hits-before.Hits) / float64(4*layers*rounds)
		if rate < want[0] || rate > want[1] {
			t.Errorf("%s: %.3f of the requested parts were resident, want %v", policy, rate, want)
		}
	}
}

// TestPromptKeepsTheHotParts: requests of all parts of each layer, as of a long prompt, come between tokens. Policies that know how often parts are used have all hot parts of
// nearly all layers afterwards, though each layer alone has more parts than may be resident of it; LRU has none of the first layers.
func TestPromptKeepsTheHotParts(t *testing.T) {
	t.Parallel()
	all := make([]uint32, parts)
	for i := range all {
		all[i] = uint32(i)
	}
	for policy, least := range map[string]int{"lru": -1, "lfu": hot * (layers - 1), "next-use": hot * (layers - 1)} {
		l := newTestLedger(t, policy, 10*12*layers, layers, parts)
		r := rand.New(rand.NewPCG(5, 6))
		for range rounds {
			for layer := range layers {
				l.Request(layer, skewed(r))
			}
		}
		for range 3 {
			for layer := range layers {
				l.Request(layer, all)
			}
		}
		kept := 0
		for layer := range layers {
			for id := range uint32(hot) {
				if l.Resident(Part{layer, id}) {
					kept++
				}
			}
		}
		if least < 0 && kept > hot*3 || kept < least {
			t.Errorf("%s: %d of %d hot parts are resident after a prompt", policy, kept, hot*layers)
		}
	}
}

// TestPromptFirst: the first request of all is a prompt's; what next-use learns from it must not make it worse than LFU later (it once took all parts for wanted).
func TestPromptFirst(t *testing.T) {
	t.Parallel()
	all := make([]uint32, parts)
	for i := range all {
		all[i] = uint32(i)
	}
	var hits [2]uint64
	for i, policy := range []string{"lfu", "next-use"} {
		l := newTestLedger(t, policy, 10*6*layers, layers, parts)
		for layer := range layers {
			l.Request(layer, all)
		}
		r := rand.New(rand.NewPCG(7, 8))
		for range rounds {
			for layer := range layers {
				l.Request(layer, skewed(r))
			}
		}
		hits[i] = l.Counters().Hits
	}
	if float64(hits[1]) < 0.99*float64(hits[0]) {
		t.Errorf("next-use has %d hits, LFU %d", hits[1], hits[0])
	}
}

// TestRepeats: a token's parts are those of the token before, more often than their frequency says. next-use learns that, LFU can't.
func TestRepeats(t *testing.T) {
	t.Parallel()
	var rate [2]float64
	for i, policy := range []string{"lfu", "next-use"} {
		l := newTestLedger(t, policy, 10*8*layers, layers, parts)
		r := rand.New(rand.NewPCG(9, 10))
		last := make([][]uint32, layers)
		for range rounds {
			for layer := range layers {
				var now []uint32
				for _, id := range last[layer] {
					if r.IntN(2) == 0 {
						now = append(now, id)
					}
				}
				for len(now) < 4 {
					if id := uint32(r.IntN(parts)); !slices.Contains(now, id) {
						now = append(now, id)
					}
				}
				slices.Sort(now)
				last[layer] = now
				l.Request(layer, now)
			}
		}
		c := l.Counters()
		rate[i] = c.HitRate()
	}
	if rate[1] < rate[0]+0.1 {
		t.Errorf("next-use has %.3f hits, LFU %.3f", rate[1], rate[0])
	}
}

// TestProfile: a seeded ledger keeps the hot parts of its profile from the beginning, and gives the profile again.
func TestProfile(t *testing.T) {
	t.Parallel()
	old := newTestLedger(t, "next-use", 10*6*layers, layers, parts)
	r := rand.New(rand.NewPCG(11, 12))
	for range rounds {
		for layer := range layers {
			old.Request(layer, skewed(r))
		}
	}
	profile := hottestFirst(old)
	for i, h := range profile {
		if i > 0 && (h.Heat > profile[i-1].Heat || !(h.Heat > 0 && h.Heat <= 1)) {
			t.Fatalf("the profile has %v after %v", h, profile[i-1])
		}
		if isHot := h.ID < hot; isHot != (i < hot*layers) {
			t.Fatalf("part %d of layer %d, of heat %v, is number %d of the profile", h.ID, h.Layer, h.Heat, i)
		}
	}
	for _, policy := range []string{"lfu", "next-use"} {
		l := newTestLedger(t, policy, 10*6*layers, layers, parts)
		l.Seed(append([]Heat{{Part{99, 0}, 1}, {Part{0, 99}, 1}}, profile...)) // some are of another model
		inserted := 0
		for _, h := range profile {
			if l.Insert(h.Part) {
				inserted++
			}
		}
		if inserted != 6*layers {
			t.Fatalf("%d parts were inserted", inserted)
		}
		for layer := range layers {
			l.Request(layer, []uint32{20, 21})
		}
		for layer := range layers {
			for id := range uint32(hot) {
				if !l.Resident(Part{layer, id}) {
					t.Errorf("%s: hot part %d of layer %d has left", policy, id, layer)
				}
			}
		}
		again := hottestFirst(l)
		if len(again) < hot*layers || again[0].ID >= hot {
			t.Errorf("%s: the profile begins with %v", policy, again[0])
		}
	}
}

// TestWeightsStayFinite: weights grow by each visit of a layer, and are scaled down in time.
func TestWeightsStayFinite(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, "next-use", 40, 1, 8)
	for i := range 100_000 {
		l.Request(0, []uint32{0, uint32(1 + i%4)})
	}
	profile := hottestFirst(l)
	if len(profile) != 5 || profile[0].ID != 0 || !(profile[0].Heat > 0.999 && profile[0].Heat <= 1) || !(profile[1].Heat > 0.24 && profile[4].Heat < 0.26) {
		t.Errorf("the profile is %v", profile)
	}
}

// hottestFirst are all parts that a ledger has been asked for, in descending order of heat; of equal ones the lower layer and id first. It is the profile that Seed takes.
func hottestFirst(l *Ledger) []Heat {
	var all []Heat
	for slot := range l.history.count {
		if h := l.history.heat(int32(slot)); h > 0 {
			all = append(all, Heat{Part: l.part(int32(slot)), Heat: h})
		}
	}
	slices.SortStableFunc(all, func(a, b Heat) int { return cmp.Compare(b.Heat, a.Heat) })
	return all
}
