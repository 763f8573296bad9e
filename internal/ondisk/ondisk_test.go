//go:build linux

package ondisk_test

import (
	"os"
	"strings"
	"testing"

	"github.com/moepool/moepool/internal/ondisk"
	"github.com/moepool/moepool/internal/smalldisk"
)

// Where temporary folders are in memory, the folder is elsewhere, empty, and gone after the test.
func TestFolder(t *testing.T) {
	memory := smalldisk.Mount(t, 1<<20)
	for _, temporary := range []string{os.TempDir(), memory} {
		var dir string
		t.Run(temporary, func(t *testing.T) {
			t.Setenv("TMPDIR", temporary)
			dir = ondisk.Folder(t)
			if strings.HasPrefix(dir, memory) {
				t.Errorf("%s lies in memory", dir)
			}
			if all, err := os.ReadDir(dir); err != nil || len(all) != 0 {
				t.Errorf("%v, %v", all, err)
			}
		})
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}
