package jinja

import (
	"fmt"
	"unicode/utf8"
)

func partitionMethod(name string, index func(s, sep string) int, atEnd bool) stringMethod {
	return func(_ *frame, s string, a arguments) (Value, error) {
		b, err := a.bind(name, 1, "sep")
		if err != nil {
			return nil, err
		}
		sep, err := b.str(0, "")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, fmt.Errorf("%s: empty separator", name)
		}
		parts := []Value{s, "", ""}
		if i := index(s, sep); i >= 0 {
			parts = []Value{s[:i], sep, s[i+len(sep):]}
		} else if atEnd {
			parts = []Value{"", "", s}
		}
		return &List{Items: parts, Tuple: true}, nil
	}
}

func findMethod(name string, index func(s, sub string) int, must bool) stringMethod {
	return func(f *frame, s string, a arguments) (Value, error) {
		b, err := a.bind(name, 1, "sub", "start", "end")
		if err != nil {
			return nil, err
		}
		sub, err := b.str(0, "")
		if err != nil {
			return nil, err
		}
		part, before, err := substring(f, s, b, 1)
		if err != nil {
			return nil, err
		}
		i := index(part, sub)
		if i < 0 {
			if must {
				return nil, fmt.Errorf("%s: substring not found", name)
			}
			return int64(-1), nil
		}
		return int64(before + utf8.RuneCountInString(part[:i])), f.produce(len(s) / 8)
	}
}
