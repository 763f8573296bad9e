package kernels

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// asmMacro is a macro of an assembly header that has one line.
type asmMacro struct {
	parameters []string
	body       string
}

// headerMacros reads the macros of amx_amd64.h.
func headerMacros(t *testing.T) map[string]asmMacro {
	t.Helper()
	data, err := os.ReadFile("amx_amd64.h")
	if err != nil {
		t.Fatal(err)
	}
	macros := map[string]asmMacro{}
	for _, m := range regexp.MustCompile(`(?m)^#define (\w+)(?:\(([^)]*)\))? (.*)$`).FindAllStringSubmatch(string(data), -1) {
		var parameters []string
		if m[2] != "" {
			parameters = strings.Split(m[2], ", ")
		}
		macros[m[1]] = asmMacro{parameters, m[3]}
	}
	return macros
}

// expand gives the bytes of a use such as TDPBSUD(3, 2, 0): the assembler's expressions have Go's syntax and precedence.
func expand(t *testing.T, macros map[string]asmMacro, use string) []byte {
	t.Helper()
	name, list, _ := strings.Cut(strings.TrimSuffix(use, ")"), "(")
	macro, ok := macros[name]
	if !ok {
		t.Fatalf("%s: no such macro", use)
	}
	var arguments []string
	if list != "" {
		arguments = strings.Split(list, ", ")
	}
	if len(arguments) != len(macro.parameters) {
		t.Fatalf("%s: the macro has parameters %q", use, macro.parameters)
	}
	var code []byte
	for _, statement := range strings.Split(macro.body, "; ") {
		expression, ok := strings.CutPrefix(statement, "BYTE $")
		if !ok {
			t.Fatalf("%s: %q is no byte", use, statement)
		}
		expression = regexp.MustCompile(`\b[a-zA-Z]\w*\b`).ReplaceAllStringFunc(expression, func(word string) string {
			for i, p := range macro.parameters {
				if p == word {
					word = arguments[i]
					break
				}
			}
			if register, ok := macros[word]; ok {
				return register.body
			}
			return word
		})
		value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
		if err != nil {
			t.Fatalf("%s: %q: %v", use, expression, err)
		}
		b, exact := constant.Uint64Val(value.Value)
		if !exact || b > 255 {
			t.Fatalf("%s: %q is %v, no byte", use, expression, value.Value)
		}
		code = append(code, byte(b))
	}
	return code
}

// The forms and operands of the instructions, their encoding by the Intel SDM (volume 2), and as the GNU assembler writes them.
var amxEncodings = []struct{ use, code, gnu string }{
	{"LDTILECFG(rAX)", "c4e2784900", "ldtilecfg (%rax)"},
	{"LDTILECFG(rDX)", "c4e2784902", "ldtilecfg (%rdx)"},
	{"TILERELEASE", "c4e27849c0", "tilerelease"},
	{"TILEZERO(0)", "c4e27b49c0", "tilezero %tmm0"},
	{"TILEZERO(1)", "c4e27b49c8", "tilezero %tmm1"},
	{"TILEZERO(7)", "c4e27b49f8", "tilezero %tmm7"},
	{"TILELOADD(rSI, r8, 2)", "c4a27b4b1406", "tileloadd (%rsi,%r8,1), %tmm2"},
	{"TILELOADD(rDI, r9, 3)", "c4a27b4b1c0f", "tileloadd (%rdi,%r9,1), %tmm3"},
	{"TILELOADD(rSI, r8, 4)", "c4a27b4b2406", "tileloadd (%rsi,%r8,1), %tmm4"},
	{"TILELOADD(rDI, r9, 5)", "c4a27b4b2c0f", "tileloadd (%rdi,%r9,1), %tmm5"},
	{"TILELOADD(rSI, r8, 6)", "c4a27b4b3406", "tileloadd (%rsi,%r8,1), %tmm6"},
	{"TILELOADD(rDI, r9, 7)", "c4a27b4b3c0f", "tileloadd (%rdi,%r9,1), %tmm7"},
	{"TILELOADD(rDI, r11, 3)", "c4a27b4b1c1f", "tileloadd (%rdi,%r11,1), %tmm3"},
	{"TILELOADD(rDI, r11, 7)", "c4a27b4b3c1f", "tileloadd (%rdi,%r11,1), %tmm7"},
	{"TILELOADD(r12, rCX, 1)", "c4c27b4b0c0c", "tileloadd (%r12,%rcx,1), %tmm1"},
	{"TILELOADD(rBX, rAX, 0)", "c4e27b4b0403", "tileloadd (%rbx,%rax,1), %tmm0"},
	{"TILESTORED(0, rDI, r11)", "c4a27a4b041f", "tilestored %tmm0, (%rdi,%r11,1)"},
	{"TILESTORED(0, r10, r11)", "c4827a4b041a", "tilestored %tmm0, (%r10,%r11,1)"},
	{"TILESTORED(1, r10, r11)", "c4827a4b0c1a", "tilestored %tmm1, (%r10,%r11,1)"},
	{"TDPBSUD(3, 2, 0)", "c4e2625ec2", "tdpbsud %tmm3, %tmm2, %tmm0"},
	{"TDPBSUD(5, 4, 1)", "c4e2525ecc", "tdpbsud %tmm5, %tmm4, %tmm1"},
	{"TDPBSUD(7, 6, 0)", "c4e2425ec6", "tdpbsud %tmm7, %tmm6, %tmm0"},
	{"TDPBSUD(7, 6, 1)", "c4e2425ece", "tdpbsud %tmm7, %tmm6, %tmm1"},
	{"TDPBSSD(3, 2, 0)", "c4e2635ec2", "tdpbssd %tmm3, %tmm2, %tmm0"},
	{"TDPBSSD(7, 6, 0)", "c4e2435ec6", "tdpbssd %tmm7, %tmm6, %tmm0"},
}

func TestAMXMacros(t *testing.T) {
	t.Parallel()
	macros := headerMacros(t)
	for _, e := range amxEncodings {
		if got := hex.EncodeToString(expand(t, macros, e.use)); got != e.code {
			t.Errorf("%s is %s, want %s", e.use, got, e.code)
		}
	}
}

// The encodings are those of the system's assembler, where it knows AMX.
func TestAMXEncodings(t *testing.T) {
	t.Parallel()
	assembler, err := exec.LookPath("as")
	if err != nil {
		t.Skip("NOT TESTED: no GNU assembler here")
	}
	var source strings.Builder
	fmt.Fprintln(&source, ".code64")
	for _, e := range amxEncodings {
		fmt.Fprintln(&source, e.gnu)
	}
	object := filepath.Join(t.TempDir(), "amx.o")
	command := exec.Command(assembler, "--64", "-o", object, "-")
	command.Stdin = strings.NewReader(source.String())
	if output, err := command.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: the assembler here doesn't know AMX: %v\n%s", err, output)
	}
	data, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, e := range amxEncodings {
		code, err := hex.DecodeString(e.code)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, code...)
	}
	if !bytes.Contains(data, all) {
		t.Errorf("the assembler's code is other than %x", all)
	}
}

// Every use in the assembly is among the encodings that are checked, and tiles are released where they are configured.
func TestAMXUses(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("amx_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`//.*`).ReplaceAllString(string(data), "")
	checked := map[string]bool{}
	for _, e := range amxEncodings {
		checked[e.use] = true
	}
	// DOTS is a macro of the assembly itself.
	dots := regexp.MustCompile(`\bDOTS\((\d), (\d), (\d), (\w+)\)`)
	source = dots.ReplaceAllString(source, "TILEZERO($3)\nTILELOADD(rSI, r8, $1)\nTILELOADD(rDI, r9, $2)\nTDPBSUD($2, $1, $3)\nTILESTORED($3, $4, r11)")
	source = regexp.MustCompile(`(?s)#define.*?[^\\]\n\n`).ReplaceAllString(source, "")
	uses := regexp.MustCompile(`\b(LDTILECFG|TILERELEASE|TILEZERO|TILELOADD|TILESTORED|TDP\w+)(\([^)]*\))?`).FindAllString(source, -1)
	for _, use := range uses {
		if !checked[use] {
			t.Errorf("%s is used, and its encoding not checked", use)
		}
	}
	if len(uses) < 30 {
		t.Errorf("only %d uses found", len(uses))
	}
	for _, function := range regexp.MustCompile(`(?m)^TEXT `).Split(source, -1)[1:] {
		name, _, _ := strings.Cut(function, "(")
		configured, released, returns := strings.Count(function, "LDTILECFG"), strings.Count(function, "TILERELEASE"), strings.Count(function, "RET")
		if configured != released || configured > 0 && returns != 1 {
			t.Errorf("%s configures tiles %d times, releases them %d times and has %d returns", name, configured, released, returns)
		}
	}
}
