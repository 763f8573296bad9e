package cluster

import (
	"fmt"

	"github.com/moepool/moepool/coordinator/placement"
	"github.com/moepool/moepool/transport"
)

// Command is one of the types below. Applying one twice is the same as applying it once.
type Command interface {
	kind() kind
	fields(c *codec)      // reads or writes what it holds
	apply(s *State) error // changes a copy
}

// kind is a command's number in the log: append only, a number is never used for anything else.
type kind uint64

const (
	kindTakeLead kind = iota + 1
	kindSetManifest
	kindAdmitWorkers
	kindRemoveWorker
	kindMarkDrain
	kindChangeSettings
	kindCommitPlan
)

// TakeLead is the first command of a leader: its term becomes the state's.
type TakeLead struct{ Coordinator string }

// SetManifest says what the group serves. The first one counts; a later one of another model, format, parts or layout is refused.
type SetManifest struct{ Manifest transport.Identity }

// AdmitWorkers admits workers, or changes where admitted ones are.
type AdmitWorkers struct{ Workers []Worker }

// RemoveWorker forgets a worker that has no experts.
type RemoveWorker struct{ Worker string }

// MarkDrain says that a worker shall get no experts, or that it may again.
type MarkDrain struct {
	Worker  string
	Drained bool
}

// ChangeSettings sets the values of some policy flags and leaves the others.
type ChangeSettings struct{ Settings map[string]string }

// CommitPlan makes a plan the group's. Its epoch must be above the committed one's, its workers must be admitted.
type CommitPlan struct{ Plan *placement.Plan }

func (*TakeLead) kind() kind       { return kindTakeLead }
func (*SetManifest) kind() kind    { return kindSetManifest }
func (*AdmitWorkers) kind() kind   { return kindAdmitWorkers }
func (*RemoveWorker) kind() kind   { return kindRemoveWorker }
func (*MarkDrain) kind() kind      { return kindMarkDrain }
func (*ChangeSettings) kind() kind { return kindChangeSettings }
func (*CommitPlan) kind() kind     { return kindCommitPlan }

// newCommand gives an empty command of a kind, nil if there is none of that number.
func newCommand(k kind) Command {
	switch k {
	case kindTakeLead:
		return &TakeLead{}
	case kindSetManifest:
		return &SetManifest{}
	case kindAdmitWorkers:
		return &AdmitWorkers{}
	case kindRemoveWorker:
		return &RemoveWorker{}
	case kindMarkDrain:
		return &MarkDrain{}
	case kindChangeSettings:
		return &ChangeSettings{}
	case kindCommitPlan:
		return &CommitPlan{}
	}
	return nil
}

// commandVersion is the first byte of an encoded command.
const commandVersion = 1

// MaxCommand is the largest encoded command in bytes.
const MaxCommand = 4 << 20

// Encode gives a command's bytes for the log. With term 0 it is valid in any term, else only in that one.
func Encode(command Command, term uint64) ([]byte, error) {
	c := &codec{}
	version, number := uint64(commandVersion), uint64(command.kind())
	c.uint(&version, commandVersion, "version")
	c.uint(&number, uint64(kindCommitPlan), "kind")
	c.uint(&term, maxUint, "term")
	command.fields(c)
	if c.err == nil && len(c.data) > MaxCommand {
		c.fail("%d bytes; a command has at most %d", len(c.data), MaxCommand)
	}
	if c.err != nil {
		return nil, fmt.Errorf("command %T: %w", command, c.err)
	}
	return c.data, nil
}

// DecodeError says what is wrong with an entry of the log or a snapshot.
type DecodeError struct{ Reason string }

func (e *DecodeError) Error() string { return e.Reason }

// Decode reads a command; nothing but what Encode gives is accepted. The error is a *DecodeError.
func Decode(data []byte) (command Command, term uint64, err error) {
	if len(data) > MaxCommand {
		return nil, 0, &DecodeError{fmt.Sprintf("a command of %d bytes; at most %d", len(data), MaxCommand)}
	}
	c := &codec{data: data, reading: true}
	var version, number uint64
	c.uint(&version, maxUint, "version")
	if c.err == nil && version != commandVersion {
		c.fail("its version is %d, this build knows %d: it was written by another build", version, commandVersion)
	}
	c.uint(&number, maxUint, "kind")
	if c.err == nil {
		if command = newCommand(kind(number)); command == nil {
			c.fail("its kind %d is not known to this build: it was written by a newer one", number)
		}
	}
	c.uint(&term, maxUint, "term")
	if c.err == nil {
		command.fields(c)
	}
	c.end()
	if c.err != nil {
		return nil, 0, &DecodeError{"a command in the log: " + c.err.Error()}
	}
	return command, term, nil
}
