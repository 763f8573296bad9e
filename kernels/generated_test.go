package kernels

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed assembly is what the generator writes. It needs bash and the generator's modules.
func TestAssemblyIsWhatTheGeneratorWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED with -short: builds the assembly generator")
	}
	sources, err := filepath.Glob("_asm/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources { // read here, so that go test's cache notices a change
		if _, err := os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	download := exec.Command("go", "mod", "download")
	download.Dir, download.Env = "_asm", append(os.Environ(), "GOWORK=off")
	if output, err := download.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: the generator's modules can't be fetched: %v\n%s", err, output)
	}
	if output, err := exec.Command("bash", "_asm/generate.sh", "-check").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\nrun kernels/_asm/generate.sh and commit the result", err, output)
	}
}
