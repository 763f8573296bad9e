package kernels

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Extensions that the generator's instruction table names, and the feature of the implementation that has each.
var (
	avx2Extensions    = map[string]string{"MMX+": "avx2", "SSE": "avx2", "SSE2": "avx2", "AVX": "avx2", "AVX2": "avx2", "FMA3": "fma", "CMOV": "avx2"}
	avxvnniExtensions = map[string]string{"AVXVNNI": "avx_vnni"}
	avx512Extensions  = map[string]string{
		"AVX512F": "avx512f", "AVX512BW": "avx512bw", "AVX512VL": "avx512vl", "AVX512DQ": "avx512dq", "AVX512VNNI": "avx512_vnni",
	}
)

// What only instructions with EVEX prefixes have: 512-bit and mask registers, registers from 16 on, suffixes for zeroing masks,
// broadcasts and rounding. In Go's assembler an instruction without any of these is EVEX only by its name (see evexNames).
var evexOperands = regexp.MustCompile(`\b(Z\d+|K[0-7]|[XY](1[6-9]|2\d|3[01]))\b|\.(Z|BCST|SAE|R[NDUZ]_SAE)\b`)

// Names that exist with an EVEX prefix only: their bit, byte, word or double-word forms, and new operations.
var evexNames = regexp.MustCompile(`^(VMOVDQ[AU](8|16|32|64)|VP(AND|ANDN|OR|XOR)[DQ]|VPTERNLOG.*|VPERM[IT]2.*|VPDPBUSDS?|VPDPWSSDS?|VP?RANGE.*|VRNDSCALE.*|` +
	`VCVTQQ2.*|VCVTPD2QQ|VCVTPS2QQ|VCVTUDQ.*|VCVTPS2UDQ|VEXTRACT[FI](32X|64X).*|VINSERT[FI](32X|64X).*|VBROADCAST[FI](32X|64X).*|VPMOV[DQW][BWD]|` +
	`VPM(AX|IN)[SU]Q|VPABSQ|VPSRAQ|VPROL.*|VPROR.*|VSCALEF.*|VGETEXP.*|VGETMANT.*|VREDUCE.*|VFPCLASS.*|VRCP14.*|VRSQRT14.*|VPCOMPRESS.*|` +
	`VPEXPAND.*|VCOMPRESS.*|VEXPAND.*|VALIGN[DQ]|VPBLENDM.*|VBLENDM.*|VPTESTN?M.*|VPCMPU?[BWDQ]|VPMULLQ|VPSLLVW|VPSRLVW|VPSRAVW|VPSRAVQ|VPERMW|VPERMB|` +
	`VDBPSADBW|VSHUF[FI](32X4|64X2)|VPOPCNT.*|VPLZCNT.*|VPCONFLICT.*)$`)

// evexUses gives "line: text" for each instruction of an assembly file that only AVX-512 has.
func evexUses(source string) []string {
	var uses []string
	for _, line := range strings.Split(source, "\n") {
		code, _, _ := strings.Cut(line, "//")
		name, _, _ := strings.Cut(strings.TrimSpace(code), " ")
		if strings.HasPrefix(name, "DATA") || strings.HasPrefix(name, "GLOBL") || strings.HasPrefix(name, "TEXT") {
			continue
		}
		if evexOperands.MatchString(code) || evexNames.MatchString(name) {
			uses = append(uses, strings.TrimSpace(line))
		}
	}
	return uses
}

// No instruction that only AVX-512 has is in an AVX2 or AVX-VNNI function: a CPU without it would stop the process there.
func TestAVX2PathHasNoEVEX(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]int{}
	function := regexp.MustCompile(`(?m)^TEXT ·(\w+)\(SB\)`)
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source := string(data)
		starts := function.FindAllStringSubmatchIndex(source, -1)
		for i, at := range starts {
			name, end := source[at[2]:at[3]], len(source)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			switch uses := evexUses(source[at[0]:end]); {
			case strings.HasSuffix(name, "AVX2"), strings.HasSuffix(name, "AVXVNNI"):
				functions[name[strings.LastIndex(name, "AVX"):]]++
				for _, use := range uses {
					t.Errorf("%s: %s has an instruction of AVX-512: %s", path, name, use)
				}
			case strings.HasSuffix(name, "AVX512"):
				functions["AVX512"]++
				if len(uses) == 0 {
					t.Errorf("%s: %s has no instruction of AVX-512", path, name)
				}
			}
		}
	}
	if functions["AVX2"] < 20 || functions["AVX512"] < 20 || functions["AVXVNNI"] < 14 {
		t.Errorf("only these functions found: %v", functions)
	}
}

// No SSE instruction follows one of AVX: while upper halves of registers are in use it costs some 500 cycles on recent CPUs.
func TestNoSSEBehindAVX(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	sse := regexp.MustCompile(`^(MOVS[SD]|MOVUP[SD]|MOVAP[SD]|MOVOU|(ADD|SUB|MUL|DIV|MIN|MAX|SQRT)[SP][SD]|CVT\w+|P[A-Z]+|SHUFP[SD]|UNPCK\w+|U?COMIS[SD])$`)
	register := regexp.MustCompile(`\bX\d+\b`)
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		behind := false
		for i, line := range strings.Split(string(data), "\n") {
			code, _, _ := strings.Cut(line, "//")
			name, _, _ := strings.Cut(strings.TrimSpace(code), " ")
			switch {
			case name == "TEXT" || name == "VZEROUPPER":
				behind = false
			case strings.HasPrefix(name, "V"):
				behind = true
			case behind && sse.MatchString(name) && register.MatchString(code):
				t.Errorf("%s:%d: %s", path, i+1, strings.TrimSpace(line))
			}
		}
	}
}

func TestEVEXUsesAreFound(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"VPADDD Z1, Z2, Z3": true, "VMOVUPS (AX), Y16": true, "VPADDD Y15, Y2, Y3": false, "VMOVDQU8 (AX), Y1": true, "VPXORD Y1, Y2, Y3": true,
		"KMOVW AX, K1": true, "VADDPS.BCST (AX), Y1, Y2": true, "VPXOR Y1, Y2, Y3": false, "ADDQ $0x10, R15 // Z1": false, "VPDPBUSD X1, X2, X3": true,
	} {
		if got := len(evexUses(line)) == 1; got != want {
			t.Errorf("%q counts as AVX-512: %t", line, got)
		}
	}
}

// Every extension that the generators found an instruction to need is one of the features that the implementation asks for.
func TestAssemblyNeedsOnlyRequiredFeatures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file           string
		implementation string
		functions      int // at least
		extensions     []map[string]string
	}{
		{"avx2_amd64.s", "avx2", 20, []map[string]string{avx2Extensions}},
		{"avxvnni_amd64.s", "avxvnni", 14, []map[string]string{avx2Extensions, avxvnniExtensions}},
		{"avx512_amd64.s", "avx512", 20, []map[string]string{avx2Extensions, avx512Extensions}},
	} {
		i := slices.IndexFunc(implementations, func(s *Set) bool { return s.name == c.implementation })
		if i < 0 {
			t.Skipf("NOT TESTED: this build has no %s", c.implementation)
		}
		data, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		needs := regexp.MustCompile(`(?m)^// Requires: (.*)$`).FindAllStringSubmatch(string(data), -1)
		if len(needs) < c.functions {
			t.Errorf("%s: only %d functions say what they require", c.file, len(needs))
		}
		for _, need := range needs {
			for _, extension := range strings.Split(need[1], ", ") {
				feature := ""
				for _, known := range c.extensions {
					if f, ok := known[extension]; ok {
						feature = f
					}
				}
				if !slices.Contains(implementations[i].requires, feature) {
					t.Errorf("%s uses %s, which kernels %q don't ask for", c.file, extension, c.implementation)
				}
			}
		}
	}
}
