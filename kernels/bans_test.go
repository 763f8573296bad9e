package kernels

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// inexactFunctions are those of package math whose results differ between CPUs, targets or GOAMD64 levels (DESIGN §2).
var inexactFunctions = []string{
	"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cbrt", "Cos", "Cosh", "Erf", "Erfc", "Erfcinv", "Erfinv", "Exp", "Exp2",
	"Expm1", "Gamma", "Hypot", "J0", "J1", "Jn", "Lgamma", "Log", "Log10", "Log1p", "Log2", "Pow", "Pow10", "Sin", "Sincos", "Sinh", "Tan",
	"Tanh", "Y0", "Y1", "Yn",
}

// bannedFolders lie on the path to logits, budget or sampling.
var bannedFolders = []string{
	"kernels", "coordinator/router", "coordinator/budget", "coordinator/sampling", "coordinator/attention", "coordinator/engine",
	"coordinator/model",
}

func TestNoInexactMathOnThePathToLogits(t *testing.T) {
	t.Parallel()
	files := 0
	for _, folder := range bannedFolders {
		root := filepath.Join("..", filepath.FromSlash(folder))
		if _, err := os.Stat(root); os.IsNotExist(err) {
			continue
		}
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (strings.HasPrefix(entry.Name(), "_") || entry.Name() == "testdata") {
				return fs.SkipDir
			}
			if !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files++
				source, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				for _, use := range inexactUses(t, path, source) {
					t.Errorf("%s: its result differs between CPUs; use package kernels' own functions", use)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files < 20 {
		t.Errorf("only %d files found", files)
	}
}

// inexactUses gives "file:line:column: math.Name" for each banned use in a file.
func inexactUses(t *testing.T, path string, source []byte) []string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, spec := range file.Imports {
		if value, _ := strconv.Unquote(spec.Path.Value); value == "math" {
			name = "math"
			if spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	var uses []string
	if name == "." {
		uses = append(uses, path+": math imported as .")
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && x.Name == name && slices.Contains(inexactFunctions, selector.Sel.Name) {
				uses = append(uses, set.Position(n.Pos()).String()+": math."+selector.Sel.Name)
			}
		}
		return true
	})
	return uses
}

func TestInexactUsesAreFound(t *testing.T) {
	t.Parallel()
	source := "package p\nimport m \"math\"\nvar a, b = m.Exp(1), m.Sqrt(2)\nvar f = m.Log\n"
	uses := inexactUses(t, "p.go", []byte(source))
	if want := []string{"p.go:3:12: math.Exp", "p.go:4:9: math.Log"}; !slices.Equal(uses, want) {
		t.Errorf("got %q, want %q", uses, want)
	}
}

// Each assembly function is called from Go functions that are never inlined, so that there is a stack check, at which the
// scheduler can stop, between any two calls (STYLE.md).
func TestAssemblyIsCalledThroughFunctionsThatAreNotInlined(t *testing.T) {
	t.Parallel()
	entries, err := filepath.Glob("*_amd64.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	assembly := map[string]int{} // calls of each
	for _, path := range entries {
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body == nil {
				assembly[f.Name.Name] = 0
			}
		}
	}
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			noinline := f.Doc != nil && slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return c.Text == "//go:noinline" })
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if _, ok := assembly[id.Name]; ok {
						assembly[id.Name]++
						if !noinline {
							t.Errorf("%s: %s is used in %s, which has no //go:noinline", set.Position(id.Pos()), id.Name, f.Name.Name)
						}
					}
				}
				loop, isFor := n.(*ast.ForStmt)
				if isFor && noinline {
					t.Errorf("%s: a loop inside %s would not be stopped", set.Position(loop.Pos()), f.Name.Name)
				}
				return true
			})
		}
	}
	if len(assembly) < 20 {
		t.Errorf("only %d assembly functions found", len(assembly))
	}
	for name, calls := range assembly {
		if calls == 0 {
			t.Errorf("%s is never called", name)
		}
	}
}
