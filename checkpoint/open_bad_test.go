package checkpoint

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// copyFolder copies a fixture, without its goldens, to a folder that the test may spoil.
func copyFolder(t *testing.T, fixture string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(filepath.Join(tiny, fixture))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "golden") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(tiny, fixture, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, e.Name()), data)
	}
	return dir
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// edit replaces text in a file; a replacement of equal length keeps a header's length.
func edit(t *testing.T, path, old, new string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s does not contain %q", path, old)
	}
	put(t, path, bytes.Replace(data, []byte(old), []byte(new), 1))
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	type o = map[string]any
	config := func(fixture string, keys o) func(*testing.T, string) {
		return func(t *testing.T, dir string) { put(t, filepath.Join(dir, "config.json"), changed(t, fixture, keys)) }
	}
	for name, c := range map[string]struct {
		fixture string
		spoil   func(t *testing.T, dir string)
		want    []string
	}{
		"too many experts": {"qwen3_moe", config("qwen3_moe", o{"num_experts": 20, "num_local_experts": 20}),
			[]string{"model.safetensors", "model.layers.0.mlp.gate.weight", "expected shape [20 64]", "found [16 64]"}},
		"too few experts": {"mixtral", config("mixtral", o{"num_local_experts": 4}),
			[]string{"model.layers.0.block_sparse_moe.gate.weight", "expected shape [4 64]", "found [8 64]"}},
		"too many layers": {"mixtral", config("mixtral", o{"num_hidden_layers": 5}),
			[]string{"model.layers.4.input_layernorm.weight", "like it: model.layers.0.input_layernorm.weight", "5 layers"}},
		"wrong width": {"qwen3_moe", config("qwen3_moe", o{"moe_intermediate_size": 48}),
			[]string{"model.layers.0.mlp.experts.0.gate_proj.weight", "expected shape [48 64]", "found [32 64]"}},
		"wrong vocabulary": {"qwen3_moe", config("qwen3_moe", o{"vocab_size": 600}),
			[]string{"model.embed_tokens.weight", "[600 64]", "[512 64]"}},
		"missing expert": {"qwen3_moe", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "model.safetensors"), "layers.2.mlp.experts.7.up_proj.weight", "layers.2.mlp.experts.7.xx_proj.weight")
		}, []string{dirMark, "model.layers.2.mlp.experts.7.up_proj.weight", "like it: ", "16 experts"}},
		"not tied": {"qwen3_moe_tied", config("qwen3_moe_tied", o{"tie_word_embeddings": false}), []string{"lm_head.weight"}},
		"other type": {"mixtral", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "model.safetensors"), `"lm_head.weight":{"dtype":"BF16"`, `"lm_head.weight":{"dtype":"I16" `)
		}, []string{"lm_head.weight", "BF16, F16 or F32", "I16"}},
		"quantised": {"qwen3_moe", config("qwen3_moe", o{"quantization_config": o{"quant_method": "fp8"}}), []string{"config.json", "quantization_config", "fp8"}},
		"cut file": {"mixtral", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 500_000); err != nil {
				t.Fatal(err)
			}
		}, []string{"model.safetensors", "within the"}},
		"long file": {"mixtral", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 1_000_000); err != nil {
				t.Fatal(err)
			}
		}, []string{"model.safetensors", "bytes of data", "found"}},
		"no config":     {"mixtral", remove("config.json"), []string{dirMark, "config.json"}},
		"no weights":    {"mixtral", remove("model.safetensors"), []string{dirMark, "expected model.safetensors or model.safetensors.index.json, found none"}},
		"other weights": {"mixtral", rename("model.safetensors", "pytorch_model.bin"), []string{"found pytorch_model.bin"}},
		"huge config": {"mixtral", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "config.json"), maxConfigBytes+1); err != nil {
				t.Fatal(err)
			}
		}, []string{"config.json", "at most 4194304 bytes", "4194305"}},
		"bad generation config": {"mixtral", func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id":"end"}`))
		}, []string{"generation_config.json", "eos_token_id"}},
		"weights are a folder": {"mixtral", func(t *testing.T, dir string) {
			remove("model.safetensors")(t, dir)
			if err := os.Mkdir(filepath.Join(dir, "model.safetensors"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, []string{"model.safetensors", "a regular file"}},

		"missing shard": {"qwen3_moe_sharded", remove("model-00002-of-00002.safetensors"),
			[]string{"model.safetensors.index.json names a file that does not exist", "model-00002-of-00002.safetensors"}},
		"index with an unknown tensor": {"qwen3_moe_sharded", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "model.safetensors.index.json"), `"lm_head.weight"`, `"lm_tail.weight"`)
		}, []string{"model.safetensors.index.json", "lm_tail.weight", "expected it in model-00001-of-00002.safetensors", "nowhere"}},
		"index with the wrong file": {"qwen3_moe_sharded", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "model.safetensors.index.json"),
				`"lm_head.weight": "model-00001-of-00002.safetensors"`, `"lm_head.weight": "model-00002-of-00002.safetensors"`)
		}, []string{"lm_head.weight", "expected it in model-00002-of-00002", "found it in model-00001-of-00002"}},
		"index that leaves the folder": {"qwen3_moe_sharded", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "model.safetensors.index.json"), `"model-00001-of-00002.safetensors"`, `"../model-00001-of-00002.safetensors"`)
		}, []string{"model.safetensors.index.json", "file in the same folder", "../model-00001"}},
		"empty index": {"qwen3_moe_sharded", func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "model.safetensors.index.json"), []byte(`{"weight_map":{}}`))
		}, []string{"weight_map is missing or empty"}},
		"index of a strange kind": {"qwen3_moe_sharded", func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "model.safetensors.index.json"), []byte(`{"weight_map":[1]}`))
		}, []string{"model.safetensors.index.json", "weight_map"}},
		"a tensor in two shards": {"qwen3_moe_sharded", func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, "model-00001-of-00002.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, "model-00002-of-00002.safetensors"), data)
		}, []string{"model-00002-of-00002.safetensors", "no other file has", "model-00001-of-00002.safetensors too"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyFolder(t, c.fixture)
			c.spoil(t, dir)
			opened, err := Open(dir)
			if err == nil {
				opened.Close()
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if want == dirMark {
					want = dir
				}
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
	if _, err := Open(filepath.Join(tiny, "mixtral", "config.json")); err == nil || !strings.Contains(err.Error(), "expected a folder") {
		t.Errorf("%v", err)
	}
	if _, err := Open(filepath.Join(tiny, "absent")); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("%v", err)
	}
}

// dirMark stands for the folder's path in an expected error.
// pinnedDigest begins the digest of the sharded fixture.
const pinnedDigest = "1f62bfa19e743bad8cc2675cd3"

const dirMark = "<folder>"

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func rename(from, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
}

func digestOf(t *testing.T, dir string) string {
	t.Helper()
	digest, err := openTiny(t, dir).Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestDigest(t *testing.T) {
	t.Parallel()
	const fixture = "qwen3_moe_sharded"
	want := digestOf(t, filepath.Join(tiny, fixture))
	// Part of the format: arenas on disk carry it.
	if !strings.HasPrefix(want, pinnedDigest) {
		t.Errorf("digest %s, expected %s…", want, pinnedDigest)
	}
	same := copyFolder(t, fixture)
	err := filepath.WalkDir(same, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := digestOf(t, same); got != want {
		t.Errorf("a copy has digest %s, the original %s", got, want)
	}
	flip := func(file string, at func(*TensorFile) int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			f := openFile(t, path)
			offset := at(f)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[offset] ^= 1
			put(t, path, data)
		}
	}
	const second = "model-00002-of-00002.safetensors"
	for name, change := range map[string]func(*testing.T, string){
		"config": func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "config.json"), "1e-06", "2e-06") },
		"index": func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "model.safetensors.index.json"), "total_size", "total_bits")
		},
		"header":                        func(t *testing.T, dir string) { edit(t, filepath.Join(dir, second), `"pt"`, `"np"`) },
		"first byte of the last tensor": flip(second, func(f *TensorFile) int64 { return f.header.entries[len(f.header.entries)-1].begin }),
		"last byte of the first tensor": flip(second, func(f *TensorFile) int64 { return f.header.entries[0].end - 1 }),
		"last byte of the embedding": flip("model-00001-of-00002.safetensors", func(f *TensorFile) int64 {
			return f.header.entries[f.byName["model.embed_tokens.weight"]].end - 1
		}),
	} {
		dir := copyFolder(t, fixture)
		change(t, dir)
		if got := digestOf(t, dir); got == want {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}

func TestDigestOfAFileThatWasCut(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be cut on Windows")
	}
	dir := copyFolder(t, "mixtral")
	c := openTiny(t, dir)
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 100_000); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Digest(); err == nil || !strings.Contains(err.Error(), "was the file changed?") {
		t.Errorf("%v", err)
	}
}

func TestReleaseKeepsTheData(t *testing.T) {
	t.Parallel()
	c := openTiny(t, copyFolder(t, "mixtral"))
	for _, name := range c.Names() {
		tensor, err := c.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(tensor.Data)
		c.Release(tensor)
		if !bytes.Equal(before, tensor.Data) {
			t.Fatalf("%s changed", name)
		}
	}
	c.Release(Tensor{}) // a tensor of no file is none of our business
}
