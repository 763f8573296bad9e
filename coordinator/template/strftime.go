package template

import (
	"fmt"
	"strings"
	"time"

	"github.com/moepool/moepool/coordinator/template/jinja"
)

// strftimeNow is the function of that name: the local time in C's notation.
func (t *Template) strftimeNow(arguments []jinja.Value) (jinja.Value, error) {
	if len(arguments) != 1 {
		return nil, fmt.Errorf("strftime_now takes one argument, not %d", len(arguments))
	}
	format, ok := arguments[0].(string)
	if !ok {
		return nil, fmt.Errorf("strftime_now needs a str")
	}
	return strftime(t.now(), format)
}

// layouts are the conversions of strftime in the C locale, in Go's notation.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'd': "02", 'e': "_2", 'm': "01", 'y': "06", 'Y': "2006", 'j': "002",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700", 'f': "000000",
	'D': "01/02/06", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
}

func strftime(now time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			return "", fmt.Errorf("strftime: %q ends with a percent sign", format)
		}
		trim := format[i] == '-' && i+1 < len(format) // glibc: no padding
		if trim {
			i++
		}
		var s string
		switch c := format[i]; c {
		case '%':
			s = "%"
		case 'n':
			s = "\n"
		case 't':
			s = "\t"
		case 'f':
			s = fmt.Sprintf("%06d", now.Nanosecond()/1000)
		case 'u':
			s = fmt.Sprint((int(now.Weekday())+6)%7 + 1)
		case 'w':
			s = fmt.Sprint(int(now.Weekday()))
		case 's':
			s = fmt.Sprint(now.Unix())
		default:
			layout, ok := layouts[c]
			if !ok {
				return "", fmt.Errorf("strftime: conversion %%%c is not supported", c)
			}
			s = now.Format(layout)
		}
		if trim {
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return b.String(), nil
}
