package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// raiseException stands for what the package template gives to every chat template.
var raiseException = Function("raise_exception", func([]Value) (Value, error) { return nil, errors.New("raised") })

// TestGoldens compares with jinja2 itself (testdata/templates/make_jinja_golden.py): the same text, or an error where it has one.
func TestGoldens(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../testdata/templates/jinja_golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Variables json.RawMessage
		Cases     []struct {
			Template    string
			Text, Error *string
		}
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	v, err := FromJSON(g.Variables)
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]Value{"raise_exception": raiseException}
	d := v.(*Dict)
	for i, k := range d.keys {
		variables[k.(string)] = d.values[i]
	}
	if len(g.Cases) < 150 {
		t.Fatalf("only %d cases", len(g.Cases))
	}
	for _, c := range g.Cases {
		text, err := "", error(nil)
		parsed, err := Parse(c.Template)
		if err == nil {
			text, err = parsed.Render(variables, Limits{})
		}
		switch {
		case c.Error != nil && err == nil:
			t.Errorf("%q\n gives %q, jinja2 an error: %s", c.Template, text, *c.Error)
		case c.Error == nil && err != nil:
			t.Errorf("%q\n gives error %v, jinja2 %q", c.Template, err, *c.Text)
		case c.Error == nil && text != *c.Text:
			t.Errorf("%q\n%s", c.Template, cmp.Diff(*c.Text, text))
		}
	}
}
