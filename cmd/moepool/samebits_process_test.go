//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moepool/moepool/transport"
)

// TestSameBitsOfProcesses compares --dump-logits files of real worker processes byte by byte.
func TestSameBitsOfProcesses(t *testing.T) {
	t.Parallel()
	model := synthModel(t, "qwen2_moe")
	for _, format := range []string{"bf16", "q8", "q4", "mxfp4"} {
		var want []byte
		for i, args := range [][]string{
			{"--workers", "1", "--arena-dir", "none"},
			{"--workers", "3", "--threads", "2", "--prefill-chunk", "5", "--arena-dir", t.TempDir(), "--lane", "local"},
			{"--workers", "2", "--kernels", "generic", "--coordinator-threads", "4", "--prefill-chunk", "1", "--arena-dir", "none"},
		} {
			file := filepath.Join(t.TempDir(), "logits.safetensors")
			report := runJSON(t, append(args, "--model", model, "--format", format, "--parts", "2", "--ignore-eos", "--max-tokens", "6",
				"--dump-logits", file, "--prompt-tokens", "5,400,17,33,260,7,9,11,100,499,3")...)
			for _, w := range report.Workers {
				if wanted := slices.Contains(args, transport.LaneLocal); (w.Lane == transport.LaneLocal) != wanted {
					t.Errorf("run %d: worker %s was reached over %s", i, w.ID, w.Lane)
				}
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s: run %d %v gives other logits than run 0", format, i, args)
			}
		}
	}
}
