package template

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	t.Parallel()
	tools := json.RawMessage(`[{"name": "f"}]`)
	for name, c := range map[string]struct {
		files map[string]string
		tools json.RawMessage
		want  string // "" is no template
		err   string // part of the error
	}{
		"none":            {files: map[string]string{"tokenizer_config.json": `{"bos_token": "<s>"}`}},
		"null":            {files: map[string]string{"tokenizer_config.json": `{"chat_template": null}`}},
		"empty folder":    {},
		"string":          {files: map[string]string{"tokenizer_config.json": `{"bos_token": "<s>", "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"}`}, want: "<s>hi"},
		"token object":    {files: map[string]string{"tokenizer_config.json": `{"eos_token": {"content": "</s>", "lstrip": false}, "chat_template": "{{ bos_token }}{{ eos_token }}"}`}, want: "</s>"},
		"list":            {files: map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "rag", "template": "{% broken"}, {"name": "default", "template": "D"}, {"name": "tool_use", "template": "T{{ tools|length }}"}]}`}, want: "D"},
		"list with tools": {files: map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T{{ tools|length }}"}]}`}, tools: tools, want: "T1"},
		"no default":      {files: map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "rag", "template": "R"}]}`}, err: `none named "default"`},
		"file first":      {files: map[string]string{"tokenizer_config.json": `{"eos_token": "E", "chat_template": "config"}`, "chat_template.jinja": "file{{ eos_token }}"}, want: "fileE"},
		"json file":       {files: map[string]string{"chat_template.json": `{"chat_template": "json"}`}, want: "json"},
		"broken template": {files: map[string]string{"chat_template.jinja": "a\n{% if x %}"}, err: `line 2: template ends before "endif"`},
		"broken json":     {files: map[string]string{"tokenizer_config.json": `{`}, err: "tokenizer_config.json"},
		"wrong type":      {files: map[string]string{"tokenizer_config.json": `{"chat_template": 5}`}, err: "neither a string nor a list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(write(t, c.files))
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if err != nil || c.want == "" {
				if got != nil {
					t.Fatal("a template where there is none")
				}
				return
			}
			text, err := got.RenderAny(json.RawMessage(`[{"role": "user", "content": "hi"}]`), Options{Tools: c.tools})
			if err != nil || text != c.want {
				t.Errorf("%q, %v, want %q", text, err, c.want)
			}
		})
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{{ m.x }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}{{ tools is none }}{{ documents is none }}", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := tpl.Render([]Message{{"system", "s"}, {"user", "{{ not a template }}"}}, true)
	if want := "<system>s<user>{{ not a template }}<assistant>TrueTrue"; err != nil || text != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

func TestRenderAnyErrors(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("{% if messages|length == 0 %}{{ raise_exception('no messages') }}{% endif %}{{ messages[0].a.b.c }}", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		messages string
		options  Options
		want     string
	}{
		{`{}`, Options{}, "messages: not a list"},
		{`[`, Options{}, "messages: "},
		{`[] []`, Options{}, "messages: more than one JSON value"},
		{`[{}]`, Options{Tools: json.RawMessage(`{}`)}, "tools: not a list"},
		{`[{}]`, Options{Variables: map[string]json.RawMessage{"x": json.RawMessage(`nope`)}}, `variable "x": `},
		{`[]`, Options{}, "chat template: no messages"},
		{`[{}]`, Options{}, `chat template: line 1: attribute "a" of dict is undefined`},
	} {
		text, err := tpl.RenderAny(json.RawMessage(c.messages), c.options)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, want %q", c.messages, text, err, c.want)
		}
	}
	_, err = tpl.RenderAny(json.RawMessage(`[]`), Options{})
	var raised *RaisedError
	if !errors.As(err, &raised) || raised.Message != "no messages" {
		t.Errorf("error %#v is not a RaisedError", err)
	}
}

func TestStrftime(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("{{ strftime_now('%d %b %Y|%Y-%m-%d %H:%M:%S|%A %-d %B %I:%M %p %j %y %%|%-m %e %f %u %w') }}", nil)
	if err != nil {
		t.Fatal(err)
	}
	tpl.now = func() time.Time { return time.Date(2026, 6, 7, 18, 9, 5, 123456789, time.UTC) }
	text, err := tpl.Render(nil, false)
	// From Python's datetime(2026, 6, 7, 18, 9, 5, 123456).strftime.
	if want := "07 Jun 2026|2026-06-07 18:09:05|Sunday 7 June 06:09 PM 158 26 %|6  7 123456 7 0"; err != nil || text != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

// One template serves many requests at once.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("{% set ns = namespace(n=0) %}{% macro f(x) %}{{ x|upper }}{% endmacro %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ f(m.content) }}{% endfor %}{{ ns.n }}", map[string]string{"eos_token": "e"})
	if err != nil {
		t.Fatal(err)
	}
	messages := json.RawMessage(`[{"content": "a"}, {"content": "b"}, {"content": "c"}]`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if text, err := tpl.RenderAny(messages, Options{}); err != nil || text != "ABC3" {
					t.Errorf("%q, %v", text, err)
				}
			}
		})
	}
	wg.Wait()
}
