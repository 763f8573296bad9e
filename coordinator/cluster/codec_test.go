package cluster

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/moepool/moepool/coordinator/placement"
)

// TestCommandCoding: what is written is read back, and other bytes are refused or are another command's own encoding.
func TestCommandCoding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		command, term := commands.Draw(t, "command"), rapid.Uint64().Draw(t, "term")
		data, err := Encode(command, term)
		if err != nil {
			t.Fatal(err)
		}
		back, backTerm, err := Decode(data)
		if err != nil || backTerm != term {
			t.Fatalf("term %d became %d: %v", term, backTerm, err)
		}
		if diff := cmp.Diff(command, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		broken := bytes.Clone(data)
		switch at := rapid.IntRange(0, len(data)-1).Draw(t, "at"); rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			broken = broken[:at]
		case 1:
			broken[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		case 2:
			broken = append(broken, data[at])
		}
		strict(t, broken)
	})
}

// strict checks that bytes are refused, or exactly what the command that they mean is encoded to.
func strict(t rapid.TB, data []byte) {
	command, term, err := Decode(data)
	if err != nil {
		if wrong := (*DecodeError)(nil); !errors.As(err, &wrong) || command != nil {
			t.Fatalf("%v gives %v, %T", data, command, err)
		}
		return
	}
	again, err := Encode(command, term)
	if err != nil || !bytes.Equal(data, again) {
		t.Fatalf("%v is accepted as %v, whose encoding is %v (%v)", data, command, again, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range []Command{
		&TakeLead{"a"}, &MarkDrain{"w", true}, &ChangeSettings{map[string]string{"a": "b"}}, &AdmitWorkers{[]Worker{{"w", "h", -1}}},
		&CommitPlan{&placement.Plan{Epoch: 1, Owned: map[string]map[int][]uint32{"w": {3: {0}}}, Owners: map[int][][]string{3: {{"w"}}}}},
	} {
		data, err := Encode(c, 7)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		strict(t, data)
		if s, err := DecodeState(data); err == nil {
			if again, err := s.Encode(); err != nil || !bytes.Equal(data, again) {
				t.Fatalf("a state is accepted whose encoding is another one (%v)", err)
			}
		}
	})
}

// TestDecodeErrors: what can't be read says why; counts that promise more than there is take no memory.
func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for want, data := range map[string][]byte{
		"version: cut off":                        {},
		"its version is 2, this build knows 1":    {2, 1, 0, 1, 'a'},
		"its kind 99 is not known to this build":  {1, 99, 0},
		"its kind 0 is not known":                 {1, 0, 0},
		"term: more bytes than it needs":          {1, 1, 0x80, 0, 1, 'a'},
		"1 bytes too many":                        {1, 1, 0, 1, 'a', 'b'},
		"2000 announced, and 0 bytes left":        {1, byte(kindAdmitWorkers), 0, 0xd0, 0x0f},
		"at most 4096":                            {1, byte(kindAdmitWorkers), 0, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"coordinator is \"a.b\"":                  {1, 1, 0, 3, 'a', '.', 'b'},
		"is not UTF-8":                            {1, 1, 0, 1, 0xff},
		"settings: a comes behind a":              {1, byte(kindChangeSettings), 0, 2, 1, 'a', 0, 1, 'a', 0},
		"the epoch is 0":                          {1, byte(kindCommitPlan), 0, 0, 0, 0},
		"workers of the plan: a comes behind b":   {1, byte(kindCommitPlan), 0, 1, 2, 1, 'b', 1, 'a', 0},
		"worker a owns an expert part twice":      {1, byte(kindCommitPlan), 0, 1, 2, 1, 'a', 1, 'b', 1, 0, 1, 1, 0, 0},
		"a command of 4194305 bytes; at most 419": make([]byte, MaxCommand+1),
	} {
		if _, _, err := Decode(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	if _, err := DecodeState([]byte("something else entirely, and long enough")); err == nil || !strings.Contains(err.Error(), "it is none") {
		t.Error(err)
	}
}

// TestEncodeErrors: a plan that contradicts itself never comes into the log.
func TestEncodeErrors(t *testing.T) {
	t.Parallel()
	for want, plan := range map[string]*placement.Plan{
		"there is no plan":         nil,
		"is no worker of the plan": {Epoch: 1, Owned: map[string]map[int][]uint32{"w": {}}, Owners: map[int][][]string{0: {{"v"}}}},
		"differ":                   {Epoch: 1, Owned: map[string]map[int][]uint32{"w": {0: {1}}}, Owners: map[int][][]string{0: {{"w"}}}},
		"owners of an expert part": {Epoch: 1, Owned: map[string]map[int][]uint32{"w": {}}, Owners: map[int][][]string{0: {nil}}},
		"the epoch is 0":           {},
	} {
		if _, err := Encode(&CommitPlan{plan}, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}

// TestComputedPlan: what placement really computes survives the log as it is.
func TestComputedPlan(t *testing.T) {
	t.Parallel()
	m := placement.Model{Layers: []int{1, 2, 40}, Experts: 7, Parts: 2, PartBytes: []int64{5, 6}}
	plan, err := placement.Compute(3, m, []placement.Worker{{ID: "b", Host: "h"}, {ID: "a", Host: "g"}, {ID: "c", Host: "g"}}, placement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := Encode(&CommitPlan{plan}, 0)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := Decode(data)
	if err != nil || !reflect.DeepEqual(back.(*CommitPlan).Plan, plan) {
		t.Fatal(err, cmp.Diff(back.(*CommitPlan).Plan, plan))
	}
}
