package numa

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Binding says what a process could and could not be bound to.
type Binding struct {
	Node     int      `json:"node"`
	CPUs     []int    `json:"cpus"`
	Affinity bool     `json:"affinity"` // sched_setaffinity succeeded
	Policy   string   `json:"policy"`   // "bind", "preferred", or "none"
	Problems []string `json:"problems,omitempty"`
}

// The policies of a Binding.
const (
	PolicyBind      = "bind"
	PolicyPreferred = "preferred"
	PolicyNone      = "none"
)

// bindingVariable hands the binding over from ExecPinned to the new image.
const bindingVariable = "MOEPOOL_NUMA_BINDING"

// handover is the variable's value. The process id, which exec keeps, tells the image that was bound from its children, which
// inherit the variable.
type handover struct {
	Process int `json:"process"`
	Binding
}

// withBinding gives env with the binding in it, in place of an earlier one.
func withBinding(env []string, b *Binding) ([]string, error) {
	text, err := json.Marshal(handover{Process: os.Getpid(), Binding: *b})
	if err != nil {
		return nil, err
	}
	next := make([]string, 0, len(env)+1)
	for _, entry := range env {
		if !strings.HasPrefix(entry, bindingVariable+"=") {
			next = append(next, entry)
		}
	}
	return append(next, bindingVariable+"="+string(text)), nil
}

// Bound gives the binding under which this process was started by ExecPinned (verified against the kernel for each thread that
// there is now), or false. What the kernel says otherwise is added to the problems.
func Bound() (*Binding, bool) {
	text, found := os.LookupEnv(bindingVariable)
	if !found {
		return nil, false
	}
	var h handover
	if err := json.Unmarshal([]byte(text), &h); err != nil || h.Process != os.Getpid() {
		return nil, false
	}
	b := h.Binding
	if b.Policy != PolicyBind && b.Policy != PolicyPreferred {
		b.Policy = PolicyNone
	}
	b.verify()
	return &b, true
}

func (b *Binding) problem(format string, args ...any) {
	b.Problems = append(b.Problems, fmt.Sprintf(format, args...))
}
