package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const tiny = "../testdata/tiny"

// tinyFolders are all fixture folders of the known families.
func tinyFolders(t *testing.T) []string {
	t.Helper()
	var folders []string
	for _, pattern := range []string{"qwen3_moe*", "qwen2_moe*", "mixtral*"} {
		found, err := filepath.Glob(filepath.Join(tiny, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no fixtures match %s (%v)", pattern, err)
		}
		folders = append(folders, found...)
	}
	return folders
}

func parseFile(t *testing.T, path string) *Config {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig(path, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tensorList evaluates the name functions, which cannot be compared.
func tensorList(c *Config) []TensorInfo {
	var list []TensorInfo
	for name, shape := range c.Tensors() {
		list = append(list, TensorInfo{Name: name, Shape: shape})
	}
	return list
}

func TestBothSpellingsAreEqual(t *testing.T) {
	t.Parallel()
	for _, folder := range tinyFolders(t) {
		old, new := parseFile(t, filepath.Join(folder, "config.json")), parseFile(t, filepath.Join(folder, "config.v5.json"))
		if diff := cmp.Diff(old, new, cmpopts.IgnoreFields(Names{}, "Layer", "Expert")); diff != "" {
			t.Errorf("%s: config.json and config.v5.json differ:\n%s", folder, diff)
		}
		if diff := cmp.Diff(tensorList(old), tensorList(new)); diff != "" {
			t.Errorf("%s: tensors differ:\n%s", folder, diff)
		}
	}
}
