package budget

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, canonical string
		want            Policy
	}{
		{"off", "off", Policy{}},
		{"0", "off", Policy{}},
		{"count=0", "off", Policy{}},
		{"bytes=0,mass=0,topp=1", "off", Policy{}},
		{"8", "count=8", Policy{Count: 8}},
		{"count=8", "count=8", Policy{Count: 8}},
		{" count= 8 ", "count=8", Policy{Count: 8}},
		{"4,fill", "count=4,fill", Policy{Count: 4, Fill: DefaultFill}},
		{"fill=16 , 4", "count=4,fill=16", Policy{Count: 4, Fill: 16}},
		{"bytes=64MiB", "bytes=64MiB", Policy{Bytes: 64 << 20}},
		{"bytes=1000", "bytes=1000", Policy{Bytes: 1000}},
		{"bytes=2048 KiB", "bytes=2MiB", Policy{Bytes: 2 << 20}},
		{"bytes=2.048kb", "bytes=2KiB", Policy{Bytes: 2048}},
		{"mass=0.050", "mass=0.05", Policy{Mass: 0.05}},
		{"mass=1e-3", "mass=0.001", Policy{Mass: 0.001}},
		{"unscaled,mass=0.1", "mass=0.1,unscaled", Policy{Mass: 0.1, Unscaled: true}},
		{"topp=.9,mass=0.05,bytes=1GiB,count=6,fill=20", "count=6,bytes=1GiB,mass=0.05,topp=0.9,fill=20",
			Policy{Count: 6, Bytes: 1 << 30, Mass: 0.05, TopP: 0.9, Fill: 20}},
	} {
		p, err := Parse(test.text)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		if test.want.Rescue = true; p != test.want {
			t.Errorf("%q gives %+v, want %+v", test.text, p, test.want)
		}
		if p.String() != test.canonical {
			t.Errorf("%q prints as %q, want %q", test.text, p.String(), test.canonical)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{
		"":                    `"" is not a number of experts from 0 up`,
		"on":                  `"on" is not a number of experts`,
		"-1":                  `"-1" is not a number of experts`,
		"count=-1":            `"-1" is not a number of experts`,
		"count=":              `"" is not a number of experts`,
		"1e3":                 `"1e3" is not a number of experts`,
		"99999999999":         `"99999999999" is not a number of experts`,
		"8,9":                 "count is given twice",
		"count=8,count=9":     "count is given twice",
		"off,count=9":         `"off" is not a number of experts`,
		"8,":                  `"" is not a number of experts`,
		"mass=1":              "a row would lose all its experts",
		"mass=1.1":            `"1.1" is not a share from 0 to 1`,
		"mass=-0.1":           `"-0.1" is not a share`,
		"mass=NaN":            `"NaN" is not a share`,
		"mass=5%":             `"5%" is not a share`,
		"topp=0":              "a row would lose all its experts",
		"bytes=-1":            `"-1" is no size`,
		"bytes=9999999999GiB": `"9999999999GiB" is no size`,
		"fill":                "fill needs a rule that drops experts",
		"off,fill":            `"off" is not a number`,
		"count=0,fill=9":      "fill needs a rule that drops experts",
		"8,fill=0":            `"0" is not a number of candidates from 1 up`,
		"unscaled":            "unscaled needs a rule that drops experts",
		"0,fill,unscaled":     "fill needs a rule that drops experts",
		"4,unscaled=1":        "it has no value",
		"keep=8":              "there is no such rule",
	} {
		_, err := Parse(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		for _, part := range []string{reason, `"off"`, `"N"`, `"count=N"`, `"bytes=SIZE"`, `"mass=SHARE"`, `"topp=SHARE"`, `"fill=M"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error of %q does not say %s: %v", text, part, err)
			}
		}
	}
}

func TestParseReadsString(t *testing.T) {
	t.Parallel()
	share := rapid.Custom(func(t *rapid.T) float64 {
		if rapid.Bool().Draw(t, "off") {
			return 0
		}
		return rapid.Float64Range(1e-300, 0.9999999999999999).Draw(t, "share")
	})
	rapid.Check(t, func(t *rapid.T) {
		want := Policy{
			Count: rapid.IntRange(0, 1<<31-1).Draw(t, "count"), Bytes: rapid.Int64Min(0).Draw(t, "bytes"),
			Mass: share.Draw(t, "mass"), TopP: share.Draw(t, "topp"), Rescue: true,
		}
		if !want.Off() {
			want.Fill, want.Unscaled = rapid.IntRange(DefaultFill, 1<<31-1).Draw(t, "fill"), rapid.Bool().Draw(t, "unscaled")
		}
		got, err := Parse(want.String())
		if err != nil || got != want {
			t.Fatalf("%q gives %+v, %v", want.String(), got, err)
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"off": "", "4": "", "4,fill": "", "4,fill=9": "",
		"4,fill=8": "expert budget count=4,fill=8: the model chooses 8 of 64 experts for a row, so fill needs more candidates than 8",
	} {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(64, 8); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if n := (Policy{Count: 1, Fill: DefaultFill}).Candidates(8); n != 16 {
		t.Errorf("%d candidates by default", n)
	}
	if n := (Policy{Fill: 9}).Candidates(8); n != 0 {
		t.Errorf("%d candidates of a policy that is off", n)
	}
}
