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
