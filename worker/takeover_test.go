package worker

import (
	"testing"

	"github.com/moepool/moepool/transport"
)

// TestNewLeader: the first beat of a leader of a higher term makes the worker's own beat due at once, so that the leader needn't wait for it; others
// don't.
func TestNewLeader(t *testing.T) {
	t.Parallel()
	p := &process{changed: make(chan struct{}, 1), epochs: epochs{assigned: &transport.Assign{Coordinator: "former", Term: 2, Epoch: 5}}}
	for _, b := range []struct {
		beat transport.CoordinatorBeat
		due  bool
	}{
		{transport.CoordinatorBeat{Instance: "former", Term: 2, Epoch: 5}, false},
		{transport.CoordinatorBeat{Instance: "older", Term: 1, Epoch: 9}, false},
		{transport.CoordinatorBeat{Instance: "other", Term: 2, Epoch: 9}, false},
		{transport.CoordinatorBeat{Instance: "next", Term: 3, Epoch: 5}, true},
	} {
		p.CoordinatorBeat(&b.beat)
		due := len(p.changed) == 1
		if due {
			<-p.changed
		}
		if due != b.due {
			t.Errorf("%+v: a beat is due: %t", b.beat, due)
		}
	}
}

// TestSilence: a worker waits longer for its coordinator while it hears no other one.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		beats   string // of its own coordinator (o), another (r), and a former leader (f), in order
		seconds float64
		free    bool
	}{
		{"o", 3.5, false}, {"o", 4.9, false}, {"o", 5, true}, {"", 5, true},
		{"or", 2.9, false}, {"or", 3, true}, {"oro", 3, false}, {"r", 3.5, true}, {"of", 4.9, false},
	} {
		p := &process{holding: &holding{o: Options{Log: t.Logf}}, changed: make(chan struct{}, 1),
			epochs: epochs{assigned: &transport.Assign{Coordinator: "own", Term: 2, Epoch: 5}}}
		for _, from := range c.beats {
			b := map[rune]transport.CoordinatorBeat{'o': {Instance: "own", Term: 2}, 'r': {Instance: "other", Term: 2}, 'f': {Instance: "former", Term: 1}}[from]
			p.CoordinatorBeat(&b)
		}
		p.checkSilence(c.seconds)
		if free := p.epochs.assigned == nil; free != c.free {
			t.Errorf("beats %q, %.1f s of silence: free %t", c.beats, c.seconds, free)
		}
	}
}
