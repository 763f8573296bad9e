package budget

import (
	"fmt"
	"strconv"
	"strings"
)

// Policy is a parsed --expert-budget with its switches.
type Policy struct {
	Count   int  // most distinct experts of a layer's batch; hits count too, but are never dropped. 0 is off
	Prefill bool // prefill rows are governed too
	Rescue  bool // a row never loses its last expert; Parse sets it
}

// valid is the end of every error of Parse.
const valid = `valid are "off", "N" and "count=N" with N from 0 (off) up, such as "8" or "count=8"`

// Parse reads "off", "N" or "count=N"; the error says what is valid. The switches get their defaults: prefill rows are not governed,
// rows are rescued.
func Parse(s string) (Policy, error) {
	p := Policy{Rescue: true}
	text := strings.TrimSpace(s)
	if text == "off" {
		return p, nil
	}
	parts := strings.Split(text, ",")
	for _, part := range parts {
		if key, _, keyed := strings.Cut(part, "="); keyed && strings.TrimSpace(key) != "count" {
			return Policy{}, fmt.Errorf("expert budget %q: %q is not available in this version; %s", s, strings.TrimSpace(key)+"=", valid)
		}
	}
	if len(parts) > 1 {
		return Policy{}, fmt.Errorf("expert budget %q: it has %d parts, and this version takes one; %s", s, len(parts), valid)
	}
	number := strings.TrimSpace(strings.TrimPrefix(text, "count="))
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 {
		return Policy{}, fmt.Errorf("expert budget %q: %q is not a number of experts; %s", s, number, valid)
	}
	p.Count = int(n)
	return p, nil
}

// String is the policy as Parse reads it, without the switches.
func (p Policy) String() string {
	if p.Count <= 0 {
		return "off"
	}
	return "count=" + strconv.Itoa(p.Count)
}
