package cluster

import "testing"

// TestCloseAnswers: a coordinator that is closed with entries that are committed but not yet applied answers those who wait for them, and ends.
func TestCloseAnswers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1)
	g.start("a")
	n := g.leader()
	const entries = 4
	before := n.raft.CommitIndex()
	n.machine.mu.Lock() // nothing is applied
	answers := make(chan error, entries)
	for i := range uint64(entries) {
		go func() { answers <- n.propose(testContext(t), &AdmitWorkers{[]Worker{{ID: "w0", Node: int(i)}}}, 0) }()
		waitFor(t, "the entry is committed", func() bool { return n.raft.CommitIndex() > before+i })
	}
	closed := make(chan error)
	go func() { closed <- n.Close() }()
	waitFor(t, "no further calls", func() bool {
		begun := n.calls.begin()
		if begun {
			n.calls.done()
		}
		return !begun
	})
	n.machine.mu.Unlock()
	for range entries {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
