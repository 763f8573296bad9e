package checkpoint

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moepool/moepool/internal/leaks"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func openTiny(t *testing.T, folder string) *Checkpoint {
	t.Helper()
	c, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// The fixtures were written by transformers: their files hold exactly the tensors that Config.Tensors lists.
func TestFilesHoldExactlyTheNeededTensors(t *testing.T) {
	t.Parallel()
	for _, folder := range append(tinyFolders(t), "../demo/qwen3moe-2m") {
		c := openTiny(t, folder)
		var needed []string
		for name := range c.Config().Tensors() {
			needed = append(needed, name)
			if x, err := c.Tensor(name); err == nil && x.DType == F8E4M3 {
				needed = append(needed, name+"_scale_inv")
			}
		}
		slices.Sort(needed)
		if diff := cmp.Diff(needed, c.Names()); diff != "" {
			t.Errorf("%s: needed and stored tensors differ:\n%s", folder, diff)
		}
		digest, err := c.Digest()
		if err != nil || len(digest) != 64 {
			t.Errorf("%s: digest %q, %v", folder, digest, err)
		}
	}
}
