package budget

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, canonical string
		count           int
	}{
		{"off", "off", 0},
		{"0", "off", 0},
		{"count=0", "off", 0},
		{"8", "count=8", 8},
		{"count=8", "count=8", 8},
		{" count= 8 ", "count=8", 8},
	} {
		p, err := Parse(test.text)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		if want := (Policy{Count: test.count, Rescue: true}); p != want {
			t.Errorf("%q gives %+v, want %+v", test.text, p, want)
		}
		if p.String() != test.canonical {
			t.Errorf("%q prints as %q, want %q", test.text, p.String(), test.canonical)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{
		"":                 "is not a number of experts",
		"on":               `"on" is not a number of experts`,
		"-1":               `"-1" is not a number of experts`,
		"count=-1":         `"-1" is not a number of experts`,
		"count=":           `"" is not a number of experts`,
		"1e3":              `"1e3" is not a number of experts`,
		"99999999999":      `"99999999999" is not a number of experts`,
		"mass=0.1":         `"mass=" is not available in this version`,
		"count=8,mass=0.1": `"mass=" is not available in this version`,
		"8,9":              "it has 2 parts",
		"count=8,count=9":  "it has 2 parts",
		"off,count=9":      "it has 2 parts",
	} {
		_, err := Parse(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		for _, part := range []string{reason, `"off"`, `"N"`, `"count=N"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error of %q does not say %s: %v", text, part, err)
			}
		}
	}
}

func TestParseReadsString(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Policy{Count: rapid.IntRange(0, 1<<31-1).Draw(t, "count"), Rescue: true}
		got, err := Parse(want.String())
		if err != nil || got != want {
			t.Fatalf("%q gives %+v, %v", want.String(), got, err)
		}
	})
}
