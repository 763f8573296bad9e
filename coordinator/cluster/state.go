package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// State is what the coordinators of a group agree on. A State is never changed: Apply gives another one. What it points to must not be
// changed either.
type State struct {
	Index   uint64            // of the last command in the log
	Term    uint64            // in which that was proposed
	History [sha256.Size]byte // hash over all commands so far: nodes of one group with the same Index have the same

	Leader     string // who took the lead last,
	LeaderTerm uint64 // and its term; 0: nobody has yet

	Manifest transport.Identity // of the model; the zero value: none yet
	Workers  map[string]Worker  // admitted ones, by id
	Drained  map[string]bool    // ids of admitted workers that shall get no experts; always true
	Settings map[string]string  // values of policy flags, by name
	Plan     *placement.Plan    // nil: nothing is placed yet
}

// Worker is an admitted worker.
type Worker struct {
	ID   string
	Host string
	Node int
}

// Entry is one command in the log.
type Entry struct {
	Index, Term uint64
	Data        []byte // from Encode
}

// RefusedError says that a command is not valid in the state that it found; the state stays as it was.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "refused: " + e.Reason }

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// ErrStaleTerm is wrapped by what refuses a command that was made for another term than it came to the log in.
var ErrStaleTerm = errors.New("the command was made in another term")

// Apply gives the state after an entry. A command that is not valid here changes nothing but Index, Term and History, and the error says why
// (a *RefusedError, or one that wraps ErrStaleTerm). An entry that can't be decoded gives a nil state and a *DecodeError: whoever made
// it knows more than this build, and it must not go on without it.
func (s *State) Apply(e Entry) (*State, error) {
	command, term, err := Decode(e.Data)
	if err != nil {
		return nil, err
	}
	next := *s
	next.Index, next.Term = e.Index, e.Term
	next.History = s.extend(e)
	if term != 0 && term != e.Term {
		return &next, fmt.Errorf("%w: %d, and the log is at %d", ErrStaleTerm, term, e.Term)
	}
	return &next, command.apply(&next)
}

// extend is the hash of the commands with one more.
func (s *State) extend(e Entry) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(s.History[:])
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, e.Index), e.Term))
	h.Write(e.Data)
	h.Sum(sum[:0])
	return sum
}

// Each apply changes only fields of its own shallow copy; a map is cloned before it changes.

func (c *TakeLead) apply(s *State) error {
	s.Leader, s.LeaderTerm = c.Coordinator, s.Term
	return nil
}

func (c *SetManifest) apply(s *State) error {
	if s.Manifest == (transport.Identity{}) {
		s.Manifest = c.Manifest
		return nil
	}
	if difference := s.Manifest.Mismatch("the group", c.Manifest, "this coordinator"); difference != "" {
		return refuse("%s", difference)
	}
	s.Manifest.Build = c.Manifest.Build // a group is upgraded one after the other
	return nil
}

func (c *AdmitWorkers) apply(s *State) error {
	workers := maps.Clone(s.Workers)
	if workers == nil {
		workers = map[string]Worker{}
	}
	for _, w := range c.Workers {
		workers[w.ID] = w
	}
	if len(workers) > maxWorkers {
		return refuse("%d workers; a group admits at most %d", len(workers), maxWorkers)
	}
	s.Workers = workers
	return nil
}

func (c *RemoveWorker) apply(s *State) error {
	if s.Plan != nil && s.Plan.Owned[c.Worker] != nil {
		return refuse("worker %s has experts in the plan of epoch %d: drain it first", c.Worker, s.Plan.Epoch)
	}
	s.Workers, s.Drained = maps.Clone(s.Workers), maps.Clone(s.Drained)
	delete(s.Workers, c.Worker)
	delete(s.Drained, c.Worker)
	return nil
}

func (c *MarkDrain) apply(s *State) error {
	if _, admitted := s.Workers[c.Worker]; !admitted {
		return refuse("worker %s is not admitted", c.Worker)
	}
	s.Drained = maps.Clone(s.Drained)
	if !c.Drained {
		delete(s.Drained, c.Worker)
		return nil
	}
	if s.Drained == nil {
		s.Drained = map[string]bool{}
	}
	s.Drained[c.Worker] = true
	return nil
}

func (c *ChangeSettings) apply(s *State) error {
	settings := maps.Clone(s.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	maps.Copy(settings, c.Settings)
	if len(settings) > maxSettings {
		return refuse("%d settings; a group keeps at most %d", len(settings), maxSettings)
	}
	s.Settings = settings
	return nil
}

func (c *CommitPlan) apply(s *State) error {
	for _, id := range slices.Sorted(maps.Keys(c.Plan.Owned)) {
		if _, admitted := s.Workers[id]; !admitted {
			return refuse("the plan of epoch %d needs worker %s, which is not admitted", c.Plan.Epoch, id)
		}
	}
	if s.Plan != nil && c.Plan.Epoch <= s.Plan.Epoch {
		if reflect.DeepEqual(c.Plan, s.Plan) {
			return nil
		}
		return refuse("the plan has epoch %d, and one of epoch %d is committed", c.Plan.Epoch, s.Plan.Epoch)
	}
	s.Plan = c.Plan
	return nil
}
