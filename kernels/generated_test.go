package kernels

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed assembly is what the generators write. It needs bash and the generators' modules.
func TestAssemblyIsWhatTheGeneratorWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED with -short: builds the assembly generators")
	}
	err := filepath.WalkDir("_asm", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() { // read here, so that go test's cache notices a change
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
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
