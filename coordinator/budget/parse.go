package budget

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/moepool/moepool/internal/bytesize"
)

// Syntax is what Parse reads, for help texts.
const Syntax = "off, N, or rules joined by commas: count=N, bytes=SIZE, mass=SHARE, topp=SHARE; beside them fill or fill=M, unscaled"

// valid is the end of every error of Parse.
const valid = `valid are "off", "N" (the same as "count=N"), and rules joined by commas: "count=N" (most experts of a layer), ` +
	`"bytes=SIZE" (most bytes that a worker reads for a layer, such as 64MiB), "mass=SHARE" (most of a row's weight that is dropped, such as 0.05), ` +
	`"topp=SHARE" (of a row's weight that is kept, such as 0.9), and beside one of these "fill" or "fill=M" (resident ones of a row's M best instead) and "unscaled" (the weights of what is left stay as they are)`

// Parse reads what Syntax says; the error says what is valid. The switches get their defaults: prefill rows are not governed, rows are
// rescued. "0", "count=0", "bytes=0", "mass=0" and "topp=1" are rules that never drop anything, and fill or unscaled without another rule is an error.
func Parse(s string) (Policy, error) {
	p := Policy{Rescue: true}
	if strings.TrimSpace(s) == "off" {
		return p, nil
	}
	given := map[string]bool{}
	for rule := range strings.SplitSeq(s, ",") {
		key, value, keyed := strings.Cut(rule, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !keyed && key != "fill" && key != "unscaled" {
			key, value = "count", key
		}
		var err error
		switch key {
		case "count":
			p.Count, err = parseCount(value, 0, "experts")
		case "bytes":
			if value != "0" {
				p.Bytes, err = bytesize.Parse(value)
			}
		case "mass":
			p.Mass, err = parseShare(value)
			if err == nil && p.Mass == 1 {
				err = errors.New("a row would lose all its experts")
			}
		case "topp":
			if p.TopP, err = parseShare(value); err == nil && p.TopP == 0 {
				err = errors.New("a row would lose all its experts")
			}
			if p.TopP == 1 {
				p.TopP = 0
			}
		case "fill":
			p.Fill = DefaultFill
			if keyed {
				p.Fill, err = parseCount(value, 1, "candidates")
			}
		case "unscaled":
			p.Unscaled = true
			if keyed {
				err = errors.New("it has no value")
			}
		default:
			err = errors.New("there is no such rule")
		}
		if err == nil && given[key] {
			err = fmt.Errorf("%s is given twice", key)
		}
		if err != nil {
			if rule = strings.TrimSpace(rule); rule != strings.TrimSpace(s) {
				err = fmt.Errorf("%q: %w", rule, err)
			}
			return Policy{}, fmt.Errorf("expert budget %q: %w; %s", s, err, valid)
		}
		given[key] = true
	}
	for key, is := range map[string]bool{"fill": p.Fill != 0, "unscaled": p.Fill == 0 && p.Unscaled} {
		if is && p.Off() {
			return Policy{}, fmt.Errorf("expert budget %q: %s needs a rule that drops experts; %s", s, key, valid)
		}
	}
	return p, nil
}

func parseCount(text string, least int, of string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || int(n) < least {
		return 0, fmt.Errorf("%q is not a number of %s from %d up", text, of, least)
	}
	return int(n), nil
}

func parseShare(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, fmt.Errorf("%q is not a share from 0 to 1", text)
	}
	return x + 0, nil // no negative zero
}

// units of sizes, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// String is the policy as Parse reads it, without the switches.
func (p Policy) String() string {
	if p.Off() {
		return "off"
	}
	var rules []string
	if p.Count > 0 {
		rules = append(rules, "count="+strconv.Itoa(p.Count))
	}
	if p.Bytes > 0 {
		rules = append(rules, "bytes="+sizeText(p.Bytes))
	}
	if p.Mass > 0 {
		rules = append(rules, "mass="+strconv.FormatFloat(p.Mass, 'g', -1, 64))
	}
	if p.TopP > 0 {
		rules = append(rules, "topp="+strconv.FormatFloat(p.TopP, 'g', -1, 64))
	}
	switch {
	case p.Fill == DefaultFill:
		rules = append(rules, "fill")
	case p.Fill > 0:
		rules = append(rules, "fill="+strconv.Itoa(p.Fill))
	}
	if p.Unscaled {
		rules = append(rules, "unscaled")
	}
	return strings.Join(rules, ",")
}

// sizeText is a size in the largest unit that divides it.
func sizeText(n int64) string {
	for _, u := range units {
		if n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Check finds what makes no sense for a model with so many experts in a layer, of which it chooses k for a row.
func (p Policy) Check(experts, k int) error {
	if p.Fill > 0 && !p.Off() && p.Fill <= k {
		return fmt.Errorf("expert budget %s: the model chooses %d of %d experts for a row, so fill needs more candidates than %d", p, k, experts, k)
	}
	return nil
}
