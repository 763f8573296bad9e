package checkpoint

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// keys reads the values of a JSON object by name. The first problem is kept in err, so that a whole configuration can be
// read without a check after each key. A null counts as an absent key unless a method says otherwise.
type keys struct {
	file     string
	values   map[string]json.RawMessage
	defaults map[string]any // what transformers assumes where a key is absent: int, float64, bool or string
	err      error
}

func (k *keys) fail(key, problem string, args ...any) {
	if k.err == nil {
		k.err = &ConfigError{File: k.file, Key: key, Problem: fmt.Sprintf(problem, args...)}
	}
}

func (k *keys) raw(key string) (json.RawMessage, bool) {
	value, present := k.values[key]
	return value, present && string(value) != "null"
}

// null tells whether the key is there with the value null.
func (k *keys) null(key string) bool { return string(k.values[key]) == "null" }

// shorten keeps a quoted value readable in an error.
func shorten(value json.RawMessage) string {
	if len(value) > 60 {
		return string(value[:57]) + "..."
	}
	return string(value)
}

// integer reads a whole number. Several spellings may be named: those that are there must agree; the first names the default.
func (k *keys) integer(spellings ...string) int {
	found, result := "", 0
	for _, key := range spellings {
		value, present := k.raw(key)
		if !present {
			continue
		}
		n, err := strconv.ParseInt(string(value), 10, strconv.IntSize)
		if err != nil {
			k.fail(key, "expected a whole number, found %s", shorten(value))
			return 0
		}
		if found != "" && int(n) != result {
			k.fail(key, "is %d, but %s, which means the same, is %d", n, found, result)
			return 0
		}
		found, result = key, int(n)
	}
	if found != "" {
		return result
	}
	value, known := k.defaults[spellings[0]].(int)
	if !known {
		k.fail(spellings[0], "is missing")
	}
	return value
}

// positive reads a whole number from 1 to limit, so that sizes computed from it stay sane.
func (k *keys) positive(limit int, spellings ...string) int {
	n := k.integer(spellings...)
	if k.err == nil && (n < 1 || n > limit) {
		k.fail(spellings[0], "must be from 1 to %d, found %d", limit, n)
	}
	return n
}

// number reads a positive finite number.
func (k *keys) number(key string) float64 {
	value, present := k.raw(key)
	if !present {
		n, known := k.defaults[key].(float64)
		if !known {
			k.fail(key, "is missing")
		}
		return n
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		k.fail(key, "expected a positive number, found %s", shorten(value))
		return 0
	}
	return n
}

func (k *keys) flag(key string) bool {
	value, present := k.raw(key)
	if !present {
		b, known := k.defaults[key].(bool)
		if !known {
			k.fail(key, "is missing")
		}
		return b
	}
	switch string(value) {
	case "true":
		return true
	case "false":
		return false
	}
	k.fail(key, "expected true or false, found %s", shorten(value))
	return false
}

func (k *keys) text(key string) string {
	value, present := k.raw(key)
	if !present {
		s, known := k.defaults[key].(string)
		if !known {
			k.fail(key, "is missing")
		}
		return s
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		k.fail(key, "expected a string, found %s", shorten(value))
	}
	return s
}

// integers reads a whole number or a list of them; an absent key is an empty list.
func (k *keys) integers(key string) []int {
	value, present := k.raw(key)
	if !present {
		return nil
	}
	var one int
	if json.Unmarshal(value, &one) == nil {
		return []int{one}
	}
	var list []int
	if err := json.Unmarshal(value, &list); err != nil {
		k.fail(key, "expected a whole number or a list of them, found %s", shorten(value))
		return nil
	}
	return list
}

// texts reads a list of strings; an absent key is an empty list.
func (k *keys) texts(key string) []string {
	value, present := k.raw(key)
	if !present {
		return nil
	}
	var list []string
	if err := json.Unmarshal(value, &list); err != nil {
		k.fail(key, "expected a list of strings, found %s", shorten(value))
		return nil
	}
	return list
}

// object reads a nested object; nil if the key is absent. Its problems are this object's.
func (k *keys) object(key string) *keys {
	value, present := k.raw(key)
	if !present {
		return nil
	}
	inner := &keys{file: k.file}
	if err := json.Unmarshal(value, &inner.values); err != nil {
		k.fail(key, "expected an object, found %s", shorten(value))
		return nil
	}
	return inner
}
