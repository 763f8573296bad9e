package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// maxIndexBytes bounds model.safetensors.index.json; that of a model with 200 000 tensors has 20 MB.
const maxIndexBytes = 256 << 20

// index is a parsed model.safetensors.index.json.
type index struct {
	path   string
	raw    []byte
	files  map[string]string // tensor → file name
	shards []string          // file names, sorted
}

func readIndex(path string) (*index, error) {
	raw, err := readLimited(path, maxIndexBytes)
	if err != nil {
		return nil, err
	}
	return parseIndex(path, raw)
}

func parseIndex(path string, raw []byte) (*index, error) {
	var content struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, fmt.Errorf("%s: expected an object with weight_map: %w", path, err)
	}
	if len(content.WeightMap) == 0 {
		return nil, fmt.Errorf("%s: weight_map is missing or empty", path)
	}
	shards := map[string]bool{}
	for tensor, file := range content.WeightMap {
		if file != filepath.Base(file) || !filepath.IsLocal(file) || filepath.Ext(file) != ".safetensors" {
			return nil, fmt.Errorf("%s: tensor %s: expected the name of a .safetensors file in the same folder, found %q", path, tensor, file)
		}
		shards[file] = true
	}
	return &index{path: path, raw: raw, files: content.WeightMap, shards: slices.Sorted(maps.Keys(shards))}, nil
}

// check demands that each tensor is in the file that the index names. It goes by name, so that the same error comes each time.
func (x *index) check(c *Checkpoint) error {
	for _, tensor := range slices.Sorted(maps.Keys(x.files)) {
		file := x.files[tensor]
		found := c.byName[tensor]
		if found == nil || filepath.Base(found.path) != file {
			where := "it nowhere"
			if found != nil {
				where = "it in " + filepath.Base(found.path)
			}
			return &TensorError{File: x.path, Tensor: tensor, Expected: "it in " + file, Found: where}
		}
	}
	return nil
}

// missing lists the files of a folder that are not there.
func (x *index) missing(dir string) (names []string) {
	for _, name := range x.shards {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			names = append(names, name)
		}
	}
	return names
}
