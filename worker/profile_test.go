package worker

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/moepool/moepool/internal/propertyseed"
	"github.com/moepool/moepool/residency"
)

func heat(layer int, id uint32, heat float64) residency.Heat {
	return residency.Heat{Part: residency.Part{Layer: layer, ID: id}, Heat: heat}
}

func TestPopularity(t *testing.T) {
	t.Parallel()
	p := newPopularity()
	if list, changed := p.hottest(); len(list) != 0 || changed {
		t.Fatalf("%v %v", list, changed)
	}
	p.note(3, []uint32{1, 7})
	p.note(3, []uint32{7})
	p.note(1, []uint32{2})
	p.note(1, []uint32{0})
	list, changed := p.hottest()
	if d := cmp.Diff([]residency.Heat{heat(3, 7, 1), heat(1, 0, 0.5), heat(1, 2, 0.5), heat(3, 1, 0.5)}, list); d != "" || !changed {
		t.Fatal(changed, d)
	}
	if _, changed := p.hottest(); changed {
		t.Error("nothing was counted since")
	}
	later := newPopularity()
	later.seed(list)
	if again, changed := later.hottest(); changed || cmp.Diff(list, again) != "" {
		t.Errorf("seeded with %v, it has %v (changed %v)", list, again, changed)
	}
	for range 4 * memoryVisits { // what was needed long ago counts less and less
		later.note(3, []uint32{9})
	}
	list, _ = later.hottest()
	if list[0].ID != 9 || list[0].Heat > 1 || list[0].Heat < 0.98 {
		t.Errorf("%v", list[0])
	}
}

// TestProfile: what is written is read again, by the same model only.
func TestProfile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := readProfile(dir, "d", 1, 4, 8); !errors.Is(err, errNoProfile) {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var want []residency.Heat
		for _, slot := range rapid.SliceOfNDistinct(rapid.IntRange(0, 4*8-1), 0, 32, rapid.ID[int]).Draw(t, "slots") {
			want = append(want, heat(slot/8, uint32(slot%8), rapid.Float64Range(1e-9, 1).Draw(t, "heat")))
		}
		if err := writeProfile(dir, "d", 1, want); err != nil {
			t.Fatal(err)
		}
		got, err := readProfile(dir, "d", 1, 4, 8)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d of %d, %v", len(got), len(want), err)
		}
		for i := range want {
			if got[i].Part != want[i].Part || math.Abs(got[i].Heat/want[i].Heat-1) > 1e-5 {
				t.Fatalf("%v became %v", want[i], got[i])
			}
		}
	})
	if err := writeProfile(dir, "d", 1, []residency.Heat{heat(3, 7, 0.25)}); err != nil {
		t.Fatal(err)
	}
	for want, read := range map[string]func() ([]residency.Heat, error){
		"of another model": func() ([]residency.Heat, error) { return readProfile(dir, "e", 1, 4, 8) },
		"in 1 parts":       func() ([]residency.Heat, error) { return readProfile(dir, "d", 2, 4, 8) },
		"layer 3":          func() ([]residency.Heat, error) { return readProfile(dir, "d", 1, 3, 8) },
		"expert part 7":    func() ([]residency.Heat, error) { return readProfile(dir, "d", 1, 4, 7) },
	} {
		if list, err := read(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ProfileName) {
			t.Errorf("%v, error %v, want one of %s", list, err, want)
		}
	}
}

// TestMalformedProfile: nothing in a file does harm, and the file is named.
func TestMalformedProfile(t *testing.T) {
	t.Parallel()
	const head = `{"moepool_profile":1,"model":"d","parts":1,"hottest":`
	for text, want := range map[string]string{
		"": "unexpected end", "{}": "version 0", head + `[[1,2]]}`: "2 numbers", head + `[[-1,2,0.5]]}`: "layer -1", head + `[[1,-2,0.5]]}`: "-2",
		head + `[[1,2,0]]}`: "heat 0", head + `[[1,2,1.5]]}`: "heat 1.5", head + `[["a",2,1]]}`: "invalid", head + `[[1,4294967296,1]]}`: "4294967296",
		head + `[[1,2,1],` + strings.Repeat("[1,2,1],", 40) + `[1,2,1]]}`: "42 expert parts", `{"moepool_profile":2}`: "version 2", head + "[": "unexpected end",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ProfileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := readProfile(dir, "d", 1, 4, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, error %v, want %q", text, list, err, want)
		}
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, ProfileName))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxProfileBytes + 1); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := readProfile(dir, "d", 1, 4, 8); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("too large: %v", err)
	}
}

// TestFitWatch: a cold start is no reason for a warning, reading again and again is, once.
func TestFitWatch(t *testing.T) {
	t.Parallel()
	const experts = 1 << 30
	at := func(seconds float64, hits, misses uint64, missBytes int64) usage {
		u := usage{busy: seconds}
		u.Hits, u.Misses, u.MissBytes, u.BytesRead, u.Resident, u.MajorFaults = hits, misses, missBytes, missBytes, 300<<20, uint64(10*seconds)
		return u
	}
	limited := func(u usage) usage { u.Limit = 400 << 20; return u }
	for _, c := range []struct {
		name  string
		looks []usage
		want  []string
	}{
		{"cold start", []usage{at(1, 0, 100, 500<<20), at(9, 900, 200, experts), at(99, 9000, 200, experts)}, nil},
		{"it doesn't fit", []usage{at(1, 0, 100, experts), at(5, 0, 200, experts+1), at(7, 30, 270, 2*experts), at(9, 60, 340, 3*experts)},
			[]string{"1.0 GiB", "keeps 300 MiB", "30 %", "537 MB", "10 major faults", "--expert-budget"}},
		{"a limit", []usage{limited(at(1, 0, 100, 401<<20)), limited(at(5, 10, 190, 500<<20))}, []string{"400 MiB may be in memory (--resident-limit)", "10 %"}},
		{"a little", []usage{at(1, 0, 100, experts+1), at(9, 9950, 150, experts+1)}, nil},
		{"idle", []usage{at(1, 0, 100, experts+1), at(1, 0, 100, experts+1)}, nil},
	} {
		f := fitWatch{}
		var said []string
		for _, u := range c.looks {
			if text := f.look(u, experts); text != "" {
				said = append(said, text)
			}
		}
		f.look(limited(at(99, 0, 9999, 9*experts)), experts)
		if again := f.look(limited(at(199, 0, 19999, 19*experts)), experts); len(said) > 0 && again != "" {
			t.Errorf("%s: said again: %s", c.name, again)
		}
		if len(said) != min(1, len(c.want)) {
			t.Errorf("%s: said %q", c.name, said)
			continue
		}
		if i := slices.IndexFunc(c.want, func(w string) bool { return !strings.Contains(said[0], w) }); i >= 0 {
			t.Errorf("%s: %q lacks %q", c.name, said[0], c.want[i])
		}
	}
}

func TestResidencyOptions(t *testing.T) {
	t.Parallel()
	r := Residency{}
	if err := r.validate(); err != nil || r.Warm != WarmNone || r.HugePages != "auto" || r.Eviction == nil {
		t.Errorf("%+v, %v", r, err)
	}
	for want, r := range map[string]Residency{
		"--resident-limit": {Limit: -1}, "--warm": {Warm: "some"}, "--huge-pages": {HugePages: "always"}, "--residency-trace": {Trace: "f"},
	} {
		if err := r.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", fmt.Sprint(r), err)
		}
	}
}
