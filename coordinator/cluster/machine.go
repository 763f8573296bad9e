package cluster

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// machine lets raft drive the State. The state never goes back: raft may install a leader's snapshot that is older than what this node has
// applied (a follower that was cut off refuses entries before its own snapshot until the leader sends its), and then gives it the entries
// from there on again. What was applied was committed, so that they are the same entries.
type machine struct {
	broken func(error) // told once that the log has an entry that this build can't apply

	mu    sync.Mutex
	state *State
	err   error
}

func newMachine(broken func(error)) *machine { return &machine{broken: broken, state: &State{}} }

// State is what has been applied so far.
func (m *machine) State() *State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Apply implements raft.FSM; its result is an error or nil.
func (m *machine) Apply(l *raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	if l.Index <= m.state.Index {
		return nil
	}
	next, err := m.state.Apply(Entry{Index: l.Index, Term: l.Term, Data: l.Data})
	if next == nil {
		m.err = fmt.Errorf("entry %d of the group's log can't be applied, and this coordinator must not go on without it: %w", l.Index, err)
		m.broken(m.err)
		return m.err
	}
	m.state = next
	if err != nil {
		return err
	}
	return nil
}

// Snapshot implements raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	return snapshot{m.state}, nil
}

// Restore implements raft.FSM.
func (m *machine) Restore(r io.ReadCloser) error {
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxState+1))
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	s, err := DecodeState(data)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Index > m.state.Index {
		m.state = s
	}
	return nil
}

// snapshot implements raft.FSMSnapshot; a State never changes.
type snapshot struct{ state *State }

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	data, err := s.state.Encode()
	if err == nil {
		_, err = sink.Write(data)
	}
	if err != nil {
		_ = sink.Cancel() // the first error is the one that says why
		return err
	}
	return sink.Close()
}

func (snapshot) Release() {}
