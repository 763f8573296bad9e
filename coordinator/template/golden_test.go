package template

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/coordinator/tokenizer"
)

const qwenDir = "../../testdata/tokenizers/qwen"

type goldenCase struct {
	Template            string
	Messages            json.RawMessage
	AddGenerationPrompt bool `json:"add_generation_prompt"`
	Tools               json.RawMessage
	EnableThinking      json.RawMessage `json:"enable_thinking"`
	Text                string
	IDs                 []int32
}

func (c goldenCase) options() Options {
	o := Options{AddGenerationPrompt: c.AddGenerationPrompt, Tools: c.Tools}
	if c.EnableThinking != nil {
		o.Variables = map[string]json.RawMessage{"enable_thinking": c.EnableThinking}
	}
	return o
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(qwenDir, "chat_golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Templates map[string]string
		Cases     []goldenCase
		MustRaise []goldenCase `json:"must_raise"`
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) != 44 || len(g.MustRaise) != 2 {
		t.Fatalf("%d cases and %d that raise, want 44 and 2", len(g.Cases), len(g.MustRaise))
	}
	tok, err := tokenizer.Load(qwenDir)
	if err != nil {
		t.Fatal(err)
	}
	templates := map[string]*Template{}
	for name, source := range g.Templates {
		if templates[name], err = Parse(source, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range g.Cases {
		got, err := templates[c.Template].RenderAny(c.Messages, c.options())
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		if diff := cmp.Diff(c.Text, got); diff != "" {
			t.Errorf("case %d: %s", i, diff)
		}
		if ids := tok.Encode(got, false); !slices.Equal(ids, c.IDs) {
			t.Errorf("case %d: ids %v, want %v", i, ids, c.IDs)
		}
	}
	for i, c := range g.MustRaise {
		text, err := templates[c.Template].RenderAny(c.Messages, c.options())
		var raised *RaisedError
		if !errors.As(err, &raised) {
			t.Errorf("must_raise %d: %q, %v", i, text, err)
		}
	}
}
