package kernels

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	known, available := Known(), Available()
	if known[len(known)-1] != "generic" || available[len(available)-1] != "generic" {
		t.Fatalf("known %q, available %q: the last is not generic", known, available)
	}
	for _, name := range []string{"", "auto"} {
		s, err := Select(name)
		if err != nil || s.Name() != available[0] {
			t.Errorf("Select(%q) = %v, %v, want %s", name, s, err, available[0])
		}
	}
	for _, name := range available {
		if s, err := Select(name); err != nil || s.Name() != name {
			t.Errorf("Select(%q) = %v, %v", name, s, err)
		}
	}
	_, err := Select("sse9")
	if err == nil || !strings.Contains(err.Error(), `"sse9"`) || !strings.Contains(err.Error(), "auto, "+strings.Join(available, ", ")) {
		t.Errorf("unknown name: %v", err)
	}
	for _, s := range implementations {
		for _, name := range s.requires {
			if !slices.ContainsFunc(Features(), func(f Feature) bool { return f.Name == name }) {
				t.Errorf("%s needs %q, which Features does not list", s.name, name)
			}
		}
	}
}

// A CPU that lacks one of the features, by GODEBUG, in a process of its own.
func TestSelectWithoutAFeature(t *testing.T) {
	if name := os.Getenv("MOEPOOL_TEST_SELECT"); name != "" {
		_, err := Select(name)
		best, _ := Select("")
		t.Logf("best %s, error: %v", best.Name(), err)
		return
	}
	for _, c := range []struct{ kernels, feature, option string }{
		{"avx2", "avx2", "avx2"},
		{"avx2", "fma", "fma"},
		{"avxvnni", "avx_vnni", "avxvnni"},
		{"avxvnni", "fma", "fma"},
		{"avx512", "avx512f", "avx512f"},
		{"avx512", "avx512bw", "avx512bw"},
		{"avx512", "avx512vl", "avx512vl"},
		{"avx512", "avx512dq", "avx512dq"},
		{"avx512", "avx512_vnni", "avx512vnni"},
		{"avx512", "avx2", "avx2"},
		{"amx", "avx512_vnni", "avx512vnni"},
	} {
		t.Run(c.kernels+" without "+c.feature, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(Available(), c.kernels) {
				t.Skipf("NOT TESTED: kernels %s can't run here", c.kernels)
			}
			command := exec.Command(os.Args[0], "-test.run=^TestSelectWithoutAFeature$", "-test.v")
			command.Env = append(os.Environ(), "MOEPOOL_TEST_SELECT="+c.kernels, "GODEBUG=cpu."+c.option+"=off")
			output, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			valid := slices.DeleteFunc(Available(), func(name string) bool { // what is left is what doesn't ask for it
				i := slices.IndexFunc(implementations, func(s *Set) bool { return s.name == name })
				return slices.Contains(implementations[i].requires, c.feature)
			})
			want := fmt.Sprintf("best %s, error: kernels %q need CPU features that are missing here: %s; valid here: auto, %s",
				valid[0], c.kernels, c.feature, strings.Join(valid, ", "))
			if !strings.Contains(string(output), want) {
				t.Errorf("got\n%s\nwant %q", output, want)
			}
		})
	}
}

func TestAMXEmulated(t *testing.T) {
	feature := func(name string) bool {
		features := Features()
		return features[slices.IndexFunc(features, func(f Feature) bool { return f.Name == name })].Present
	}
	t.Setenv("AMXTRAP", "native")
	native := feature("amx_tile") && feature("amx_int8")
	if AMXEmulated() {
		t.Error("AMX counts as emulated with AMXTRAP=native")
	}
	t.Setenv("AMXTRAP", "1")
	if AMXEmulated() == native {
		t.Errorf("AMXTRAP=1, native AMX %t: emulated %t", native, AMXEmulated())
	}
	if !feature("amx_tile") || !feature("amx_int8") {
		t.Error("AMXTRAP=1 does not count as AMX")
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range Formats() {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("ParseFormat(%q) = %v, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("q9"); err == nil || !strings.Contains(err.Error(), `"q9"; valid: f32, bf16, q8, fp8, q4`) {
		t.Errorf("an unknown format: %v", err)
	}
	if got := Format(99).String(); got != "Format(99)" {
		t.Error(got)
	}
}
