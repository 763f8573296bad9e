//go:build amd64 && !purego

package kernels

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/moepool/moepool/internal/lacking"
)

// instruction is one of a function, as objdump shows it.
type instruction struct {
	first byte // of its machine code; 0x62 is an EVEX prefix in 64-bit mode
	text  string
}

// disassembly builds this package's test binary and gives the instructions of each assembly function. It needs the Go command and
// binutils' objdump.
func disassembly(t *testing.T) map[string][]instruction {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: builds and disassembles a test binary")
	}
	if _, err := exec.LookPath("objdump"); err != nil || runtime.GOOS != "linux" {
		lacking.Skip(t, "machine code is looked at on Linux, with objdump (binutils)")
	}
	binary := filepath.Join(t.TempDir(), "kernels.test")
	if output, err := exec.Command("go", "test", "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	isAssembly := regexp.MustCompile(`/kernels\.\w+(AVX2|AVXVNNI|AVX512)\.abi0$`)
	symbols = slices.DeleteFunc(symbols, func(s elf.Symbol) bool { return elf.ST_TYPE(s.Info) != elf.STT_FUNC || !isAssembly.MatchString(s.Name) })
	if len(symbols) == 0 {
		t.Fatal("no assembly functions in the test binary")
	}
	byAddress := func(a, b elf.Symbol) int { return int(int64(a.Value) - int64(b.Value)) }
	from, to := slices.MinFunc(symbols, byAddress), slices.MaxFunc(symbols, byAddress)
	output, err := exec.Command("objdump", "-d", "--wide", fmt.Sprintf("--start-address=%d", from.Value), fmt.Sprintf("--stop-address=%d", to.Value+to.Size), binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	heading, name := regexp.MustCompile(`^[0-9a-f]+ <(.*)>:$`), ""
	functions := map[string][]instruction{}
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if found := heading.FindStringSubmatch(line); found != nil {
			name = ""
			if isAssembly.MatchString(found[1]) {
				name = strings.TrimSuffix(found[1], ".abi0")
				name = name[strings.LastIndex(name, ".")+1:]
			}
			continue
		}
		if fields := strings.Split(line, "\t"); name != "" && len(fields) >= 3 {
			var first byte
			if _, err := fmt.Sscanf(fields[1], "%02x", &first); err != nil {
				t.Fatalf("objdump's line %q: %v", line, err)
			}
			functions[name] = append(functions[name], instruction{first, strings.Join(strings.Fields(fields[2]), " ")})
		}
	}
	return functions
}

// The machine code of AVX2 and AVX-VNNI functions has no EVEX prefix, and VPDPBUSD_VEX is the VPDPBUSD that it is said to be.
func TestMachineCode(t *testing.T) {
	functions := disassembly(t)
	source, err := os.ReadFile("avxvnni_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	macros := regexp.MustCompile(`VPDPBUSD_VEX\((\d+), (\d+), (\d+)\)`)
	seen := map[string]int{}
	for name, code := range functions {
		evex, products := 0, []string{}
		for _, i := range code {
			if i.first == 0x62 {
				if evex++; !strings.HasSuffix(name, "AVX512") {
					t.Errorf("%s has an instruction of AVX-512: %s", name, i.text)
				}
			}
			if strings.Contains(i.text, "vpdpbusd") {
				products = append(products, strings.TrimPrefix(i.text, "{vex} "))
			}
			if strings.Contains(i.text, "(bad)") {
				t.Errorf("%s has bytes that are no instruction", name)
			}
		}
		set := name[strings.LastIndex(name, "AVX"):]
		seen[set]++
		switch {
		case set == "AVX512" && evex == 0:
			t.Errorf("%s has no instruction of AVX-512", name)
		case set == "AVXVNNI":
			_, body, _ := strings.Cut(string(source), "TEXT ·"+name+"(SB)")
			body, _, _ = strings.Cut(body, "TEXT ·")
			var want []string
			for _, m := range macros.FindAllStringSubmatch(body, -1) {
				want = append(want, fmt.Sprintf("vpdpbusd %%ymm%s,%%ymm%s,%%ymm%s", m[1], m[2], m[3]))
			}
			if len(want) == 0 {
				t.Errorf("%s has no product in its source", name)
			}
			requireSame(t, name, products, want)
		}
	}
	if seen["AVX2"] < 20 || seen["AVXVNNI"] < 14 || seen["AVX512"] < 20 {
		t.Errorf("only these functions found: %v", seen)
	}
}
