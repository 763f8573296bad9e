package worker

import (
	"fmt"

	"github.com/moepool/moepool/arena"
	"github.com/moepool/moepool/residency"
	"github.com/moepool/moepool/worker/shard"
)

// Residency says how experts come into memory and leave it. The zero value leaves both to the kernel.
type Residency struct {
	// Limit is how many bytes of experts the worker keeps in memory: it evicts others before it reads more. 0: it doesn't, the kernel
	// takes back what it needs.
	Limit int64

	// Notes are what is to be said of where Limit comes from, in the worker's beats.
	Notes []string

	// Eviction is the policy that decides which experts leave; nil is residency.Default.
	Eviction residency.Policy

	// Warm says what is brought into memory after loading, before the worker is ready; "" is WarmNone.
	Warm Warm

	// Prefetch says whether hints of the coordinator are followed; it needs a limit.
	Prefetch shard.Prefetch

	// MLock locks experts in memory while they are resident.
	MLock bool

	// HugePages says what pages experts are mapped by; "" is arena.HugePagesAuto.
	HugePages arena.PageSize

	// Trace is a file that records what the ledger was asked; "": none.
	Trace string
}

// Warm is what is brought into memory before the first work.
type Warm string

// What --warm can say.
const (
	WarmNone    Warm = "none"
	WarmHottest Warm = "hottest" // what was used most in earlier runs, as far as it has room
	WarmAll     Warm = "all"     // the same, and then all others that have room
)

// ParseWarm reads a flag's value.
func ParseWarm(s string) (Warm, error) {
	switch w := Warm(s); w {
	case WarmNone, WarmHottest, WarmAll:
		return w, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s and %s", s, WarmAll, WarmHottest, WarmNone)
}

// validate fills defaults and says which option is wrong.
func (r *Residency) validate() error {
	if r.Limit < 0 {
		return fmt.Errorf("worker: --resident-limit %d: a number of bytes, or none", r.Limit)
	}
	if r.Eviction == nil {
		r.Eviction = residency.Default
	}
	if r.Warm == "" {
		r.Warm = WarmNone
	}
	if _, err := ParseWarm(string(r.Warm)); err != nil {
		return fmt.Errorf("worker: --warm: %w", err)
	}
	if r.HugePages == "" {
		r.HugePages = arena.HugePagesAuto
	}
	if _, err := arena.ParsePageSize(string(r.HugePages)); err != nil {
		return fmt.Errorf("worker: --huge-pages: %w", err)
	}
	if r.Trace != "" && r.Limit == 0 {
		return fmt.Errorf("worker: --residency-trace %s: it records what the ledger of a --resident-limit is asked, and there is no limit", r.Trace)
	}
	return nil
}
