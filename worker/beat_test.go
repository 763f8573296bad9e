package worker

import (
	"strings"
	"testing"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/checkpoint/synth"
	"github.com/moepool/moepool/transport"
)

func TestLockNote(t *testing.T) {
	t.Parallel()
	note := lockNote(arena.Counters{LockedBytes: 1 << 20, LockRefusedBytes: 5 << 19})
	for _, want := range []string{"--mlock", "2.5 MiB of the experts", "1.0 MiB are", "ulimit -l"} {
		if !strings.Contains(note, want) {
			t.Errorf("%q does not say %q", note, want)
		}
	}
}

// Only who asked for locks hears of them.
func TestNoLockNote(t *testing.T) {
	t.Parallel()
	b := newBench(t, synth.Tiny("mixtral"))
	b.start(b.options("w0"))
	if beat := b.awaitState("w0", transport.StateIdle); strings.Contains(strings.Join(beat.Notes, "\n"), "--mlock") {
		t.Errorf("notes %q", beat.Notes)
	}
}
