package cluster

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"
)

const maxUint = math.MaxUint64

// codec writes values to data, or reads them from it: one function lists a type's fields for both, so that they can't differ. Reading is
// strict: only bytes that writing gives are accepted, and a count is checked against what is left before memory is taken. The
// first error stays.
type codec struct {
	data    []byte // all that was written, or what is left to read
	reading bool
	err     error
}

func (c *codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// uint is a number up to most, in as few bytes of 7 bits as it needs.
func (c *codec) uint(v *uint64, most uint64, what string) {
	if c.err != nil {
		return
	}
	if c.reading {
		n := 0
		if *v, n = binary.Uvarint(c.data); n <= 0 {
			c.fail("%s: cut off", what)
			return
		}
		if n > 1 && c.data[n-1] == 0 {
			c.fail("%s: more bytes than it needs", what)
			return
		}
		c.data = c.data[n:]
	}
	if *v > most {
		c.fail("%s is %d; at most %d", what, *v, most)
		return
	}
	if !c.reading {
		c.data = binary.AppendUvarint(c.data, *v)
	}
}

// int is a number from least to most.
func (c *codec) int(v *int, least, most int, what string) {
	if !c.reading && (*v < least || *v > most) {
		c.fail("%s is %d; valid are %d to %d", what, *v, least, most)
		return
	}
	above := uint64(*v - least)
	c.uint(&above, uint64(most-least), what)
	if c.reading && c.err == nil {
		*v = int(above) + least
	}
}

// count is the length of a list whose elements take at least one byte each.
func (c *codec) count(n *int, most int, what string) {
	c.int(n, 0, most, what)
	if c.reading && c.err == nil && *n > len(c.data) {
		c.fail("%s: %d announced, and %d bytes left", what, *n, len(c.data))
	}
	if c.err != nil {
		*n = 0
	}
}

func (c *codec) bool(v *bool, what string) {
	n := 0
	if *v {
		n = 1
	}
	c.int(&n, 0, 1, what)
	*v = n == 1
}

// text is UTF-8 of up to most bytes.
func (c *codec) text(v *string, most int, what string) {
	n := len(*v)
	c.count(&n, most, "length of "+what)
	switch {
	case c.err != nil:
	case c.reading:
		*v = string(c.data[:n])
		c.data = c.data[n:]
	default:
		c.data = append(c.data, *v...)
	}
	if c.err == nil && !utf8.ValidString(*v) {
		c.fail("%s is not UTF-8", what)
	}
}

// bytes are as many as the slice has.
func (c *codec) bytes(v []byte, what string) {
	switch {
	case c.err != nil:
	case !c.reading:
		c.data = append(c.data, v...)
	case len(c.data) < len(v):
		c.fail("%s: cut off", what)
	default:
		copy(v, c.data)
		c.data = c.data[len(v):]
	}
}

// ascending checks that keys come in strictly ascending order, so that a map has one encoding only.
func ascending[K int | string](c *codec, previous *K, key K, first bool, what string) {
	if c.err == nil && !first && key <= *previous {
		c.fail("%s: %v comes behind %v", what, key, *previous)
	}
	*previous = key
}

// table is a map, in order of its keys. A nil map and an empty one are the same and are read as nil.
func table[V any](c *codec, m *map[string]V, most int, what string, entry func(key *string, value *V)) {
	n := len(*m)
	c.count(&n, most, what)
	if !c.reading {
		for _, key := range slices.Sorted(maps.Keys(*m)) {
			value := (*m)[key]
			entry(&key, &value)
		}
		return
	}
	*m = nil
	if n > 0 {
		*m = make(map[string]V, n)
	}
	previous := ""
	for i := 0; i < n && c.err == nil; i++ {
		var key string
		var value V
		entry(&key, &value)
		ascending(c, &previous, key, i == 0, what)
		if c.err == nil {
			(*m)[key] = value
		}
	}
}

// end says that nothing may be left.
func (c *codec) end() {
	if c.reading && len(c.data) > 0 {
		c.fail("%d bytes too many", len(c.data))
	}
}
