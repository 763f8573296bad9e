package cluster

import (
	"fmt"
	"math"

	"github.com/moepool/moepool/transport"
)

// Limits of what a state holds.
const (
	maxWorkers  = 4096
	maxSettings = 64
	maxText     = 1024
	maxName     = 64
)

// name is an id: 1 to 64 of A-Z a-z 0-9 _ -.
func (c *codec) name(v *string, what string) {
	c.text(v, maxName, what)
	if c.err == nil && !transport.ValidName(*v) {
		c.fail("%s is %q; valid are 1 to %d of A-Z a-z 0-9 _ -", what, *v, maxName)
	}
}

func (c *codec) identity(v *transport.Identity) {
	c.int(&v.Protocol, 0, math.MaxInt32, "protocol")
	c.text(&v.Build, maxText, "build")
	c.text(&v.ModelDigest, maxText, "model digest")
	c.text(&v.Format, maxText, "format")
	c.int(&v.Parts, 0, transport.MaxLayerParts, "parts")
	c.int(&v.Layout, 0, math.MaxInt32, "layout")
}

func (c *codec) worker(v *Worker) {
	c.name(&v.ID, "worker")
	c.text(&v.Host, maxText, "host")
	c.int(&v.Node, -1, math.MaxInt32, "node")
}

func (c *codec) settings(v *map[string]string) {
	table(c, v, maxSettings, "settings", func(key, value *string) {
		c.name(key, "setting")
		c.text(value, maxText, "value of "+*key)
	})
}

func (m *TakeLead) fields(c *codec)       { c.name(&m.Coordinator, "coordinator") }
func (m *SetManifest) fields(c *codec)    { c.identity(&m.Manifest) }
func (m *RemoveWorker) fields(c *codec)   { c.name(&m.Worker, "worker") }
func (m *ChangeSettings) fields(c *codec) { c.settings(&m.Settings) }
func (m *CommitPlan) fields(c *codec)     { c.plan(&m.Plan) }

func (m *MarkDrain) fields(c *codec) {
	c.name(&m.Worker, "worker")
	c.bool(&m.Drained, "drained")
}

func (m *AdmitWorkers) fields(c *codec) {
	n := len(m.Workers)
	c.count(&n, maxWorkers, "workers")
	if c.reading {
		m.Workers = make([]Worker, n)
	}
	for i := range m.Workers {
		c.worker(&m.Workers[i])
	}
}

// stateVersion follows stateMagic in an encoded state.
const (
	stateMagic   = "moepool cluster state\n"
	stateVersion = 1
)

// MaxState is the largest encoded state in bytes.
const MaxState = MaxCommand + maxWorkers*(2*maxName+maxText) + maxSettings*(maxName+maxText)

// Encode gives a state's bytes, the same for the same state.
func (s *State) Encode() ([]byte, error) {
	c := &codec{}
	s.fields(c)
	if c.err != nil {
		return nil, fmt.Errorf("state: %w", c.err)
	}
	return c.data, nil
}

// DecodeState reads what Encode gives, and nothing else. The error is a *DecodeError.
func DecodeState(data []byte) (*State, error) {
	c, s := &codec{data: data, reading: true}, &State{}
	if len(data) > MaxState {
		c.fail("%d bytes; at most %d", len(data), MaxState)
	}
	s.fields(c)
	c.end()
	if c.err != nil {
		return nil, &DecodeError{"a snapshot of the group's state: " + c.err.Error()}
	}
	return s, nil
}

func (s *State) fields(c *codec) {
	magic, version := []byte(stateMagic), uint64(stateVersion)
	c.bytes(magic, "beginning")
	if c.err == nil && string(magic) != stateMagic {
		c.fail("it is none")
	}
	c.uint(&version, maxUint, "version")
	if c.err == nil && version != stateVersion {
		c.fail("its version is %d, this build knows %d", version, stateVersion)
	}
	c.uint(&s.Index, maxUint, "index")
	c.uint(&s.Term, maxUint, "term")
	c.bytes(s.History[:], "history")
	c.text(&s.Leader, maxName, "leader")
	c.uint(&s.LeaderTerm, maxUint, "leader's term")
	c.identity(&s.Manifest)
	table(c, &s.Workers, maxWorkers, "workers", func(key *string, w *Worker) {
		c.worker(w)
		*key = w.ID
	})
	table(c, &s.Drained, maxWorkers, "drained workers", func(key *string, drained *bool) {
		c.name(key, "drained worker")
		*drained = true
	})
	c.settings(&s.Settings)
	planned := s.Plan != nil
	c.bool(&planned, "whether there is a plan")
	if planned && c.err == nil {
		c.plan(&s.Plan)
	}
}
