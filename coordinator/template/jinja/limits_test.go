package jinja

import (
	"errors"
	"strings"
	"testing"
)

// Templates that would take for ever, fill the memory or overflow the stack end with an error.
func TestHostileTemplates(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"macro recursion":     "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"mutual recursion":    "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
		"call recursion":      "{% macro g() %}{% call g() %}{% endcall %}{{ caller() }}{% endmacro %}{% call g() %}x{% endcall %}",
		"loop recursion":      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"large range":         "{% for i in range(1000000000) %}{% endfor %}",
		"nested loops":        "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
		"nested filters":      "{% for i in range(90000) %}{{ range(90000)|select('odd')|list }}{% endfor %}",
		"string doubling":     "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"string addition":     "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"list doubling":       "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"repetition":          "{{ 'a' * 100000000000 }}",
		"list repetition":     "{{ [1] * 100000000000 }}",
		"replace":             "{% set a = 'a' * 100000 %}{{ a.replace('a', a) }}",
		"replace filter":      "{% set a = 'a' * 100000 %}{{ a|replace('', a) }}",
		"join":                "{% set a = 'a' * 1000000 %}{{ range(99999)|join(a) }}",
		"join method":         "{% set a = 'a' * 1000000 %}{{ a.join(a) }}",
		"indent":              "{% set a = '\n' * 1000000 %}{{ a|indent(1000000, blank=true) }}",
		"center":              "{{ 'a'.center(100000000000) }}",
		"width":               "{{ '%999999999d' % 1 }}",
		"json indent":         "{{ [1]|tojson(indent=1000000000) }}",
		"print of a dag":      "{% set ns = namespace(x=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
		"json of a dag":       "{% set ns = namespace(x=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
		"equality of dags":    "{% set ns = namespace(x=1, y=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
		"order of dags":       "{% set ns = namespace(x=1, y=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x < ns.y }}",
		"deep value":          "{% set ns = namespace(x=1) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
		"deep equality":       "{% set ns = namespace(x=1, y=1) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
		"namespace in itself": "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
		"deep expression":     "{{ " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000) + " }}",
		"deep list":           "{{ " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + " }}",
		"deep unary":          "{{ " + strings.Repeat("-", 100_000) + "1 }}",
		"deep not":            "{{ " + strings.Repeat("not ", 100_000) + "1 }}",
		"deep condition":      "{{ " + strings.Repeat("1 if 1 else ", 50_000) + "1 }}",
		"deep attribute":      "{{ x" + strings.Repeat(".x", 100_000) + " }}",
		"deep filter":         "{{ x" + strings.Repeat("|d", 100_000) + " }}",
		"deep block":          strings.Repeat("{% if 1 %}", 50_000) + strings.Repeat("{% endif %}", 50_000),
		"deep target":         "{% set " + strings.Repeat("(", 100_000) + "x" + strings.Repeat(")", 100_000) + " = 1 %}",
		"large template":      strings.Repeat("x", maxSource+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := Parse(source)
			var text string
			if err == nil {
				text, err = parsed.Render(nil, Limits{Work: 4 << 20}) // the default is the same, later
			}
			if !errors.Is(err, ErrLimit) {
				t.Errorf("error %v after %d bytes, want ErrLimit", err, len(text))
			}
		})
	}
}

// What is wide but not deep is fine.
func TestLongTemplates(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"sum":    "{{ 0" + strings.Repeat(" + 1", 20_000) + " }}",
		"and":    "{{ 1" + strings.Repeat(" and 1", 20_000) + " }}",
		"concat": "{{ 1" + strings.Repeat(" ~ 1", 20_000) + " }}",
		"tags":   strings.Repeat("{{ 1 }}\n", 20_000),
		"elif":   "{% if 0 %}" + strings.Repeat("{% elif 0 %}", 20_000) + "{% endif %}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := Parse(source)
			if err == nil {
				_, err = parsed.Render(nil, Limits{})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A conversation of a hundred thousand tokens is far from the limits.
func TestLongInput(t *testing.T) {
	t.Parallel()
	parsed, err := Parse("{% macro body(c) %}{% if c is string %}{{ c }}{% endif %}{% endmacro %}{% for m in messages %}{{ '<' + m.role + '>' + body(m.content) | trim }}\n{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	messages := NewList()
	for range 300 {
		d := NewDict()
		_ = d.Set("role", "user")
		_ = d.Set("content", strings.Repeat("words ", 500))
		messages.Items = append(messages.Items, d)
	}
	text, err := parsed.Render(map[string]Value{"messages": messages}, Limits{})
	if err != nil || len(text) < 300*2999 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"a\n{{ missing.x }}":                                    `line 2: "missing" is undefined`,
		"\n\n{% for x in 5 %}{% endfor %}":                      "line 3: int is not iterable",
		"{% macro m() %}\n{{ 1 + 'a' }}{% endmacro %}{{ m() }}": "line 2: unsupported operand types for +: int and str",
		"a\nb{% if x %}":                                        `line 2: template ends before "endif"`,
		"{{ 1\n+ }}":                                            "line 1: expected an expression",
		"x\n{% include 'a' %}":                                  `line 2: statement "include" is not supported (known: if, for, set, macro, call, filter, with, generation, break, continue, raw)`,
		"{{ x|nope }}":                                          `line 1: no filter named "nope"`,
		"{{ [].append(1) }}":                                    "line 1: append would change a value, which templates may not do",
	} {
		parsed, err := Parse(source)
		if err == nil {
			_, err = parsed.Render(nil, Limits{})
		}
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %q", source, err, want)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, s := range []string{
		"{% for x in l %}{{ x|upper ~ loop.index }}{% else %}e{% endfor %}", "{%- macro m(a, b=1) -%}{{ a[1:] }}{%- endmacro -%}{{ m('abc') }}", "{% set ns = namespace(x=1) %}{% set ns.x = ns.x + 1 %}{{ ns }}",
		"{# c #}{% raw %}{{ x }}{% endraw %}", "{{ d.items()|list|tojson(indent=2) }}", "{{ '%s' % (1,) }}{{ 'a'.split('b', 1) }}{{ {'a': [1, (2,)]}|dictsort }}", "{% call(x) f() %}{% endcall %}", "{{ l|map(attribute='a.b', default=1)|sort|unique|join(',') }}",
		"{{ -7 // 2 ** 3 % 4 }}{{ 1 < 2 in [true] }}{{ l[::-1][0] if l is defined else none }}", "{% filter indent(2) %}a\nb{% endfilter %}{% with a=1 %}{{ a }}{% endwith %}{% generation %}{% break %}",
	} {
		f.Add(s)
	}
	d := NewDict()
	if err := d.Set("a", "x"); err != nil {
		f.Fatal(err)
	}
	variables := map[string]Value{"l": NewList(int64(1), "a", nil, 2.5, d), "d": d, "s": "text é😀"}
	f.Fuzz(func(t *testing.T, source string) {
		parsed, err := Parse(source)
		if err != nil {
			return
		}
		text, err := parsed.Render(variables, Limits{Work: 1 << 20})
		if err != nil && strings.Contains(err.Error(), "internal error") {
			t.Fatal(err)
		}
		if len(text) > 1<<20 {
			t.Fatalf("%d bytes", len(text))
		}
	})
}
