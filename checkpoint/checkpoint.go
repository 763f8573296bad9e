package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
)

// Checkpoint is an open model folder. Tensors are read through read-only mappings. Its methods may be called concurrently, but
// for Close.
type Checkpoint struct {
	dir       string
	config    *Config
	rawConfig []byte
	rawIndex  []byte        // nil for a model in one file
	files     []*TensorFile // ascending names
	byName    map[string]*TensorFile

	digest func() (string, error) // computed once
}

// Open reads configuration and tensor headers of the folder, and checks both against the files' sizes and against each other
// (every tensor that the family needs exists with the right shape) before anything is allocated. ErrMissing: files are not there.
func Open(dir string) (*Checkpoint, error) { return OpenPartial(dir, nil) }

func open(dir string, absent map[string]Absent) (*Checkpoint, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("model folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("model folder %s: expected a folder with config.json and model.safetensors, found a file", dir)
	}
	config, raw, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{dir: dir, config: config, rawConfig: raw, byName: map[string]*TensorFile{}}
	c.digest = sync.OnceValues(c.computeDigest)
	if err := c.openFiles(absent); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.check(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// singleFile is the weights' file of a model that has one.
const singleFile = "model.safetensors"

// openFiles opens model.safetensors or, if there is none, the shards that the index names.
func (c *Checkpoint) openFiles(absent map[string]Absent) error {
	single := filepath.Join(c.dir, singleFile)
	_, err := os.Stat(single)
	if _, elsewhere := absent[singleFile]; err == nil || elsewhere {
		return c.addFile(single, absent)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	index, err := readIndex(filepath.Join(c.dir, "model.safetensors.index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return c.noWeights()
	}
	if err != nil {
		return err
	}
	c.rawIndex = index.raw
	for _, shard := range index.shards {
		path := filepath.Join(c.dir, shard)
		if err := c.addFile(path, absent); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return &MissingError{Index: index.path, Files: index.missing(c.dir), err: err}
			}
			return err
		}
	}
	return index.check(c)
}

// noWeights says what was found in place of safetensors.
func (c *Checkpoint) noWeights() error {
	found := "none"
	for _, pattern := range []string{"*.safetensors", "*.gguf", "*.bin", "*.pth", "*.pt"} {
		if matches, _ := filepath.Glob(filepath.Join(c.dir, pattern)); len(matches) > 0 {
			found = filepath.Base(matches[0])
			break
		}
	}
	err := fmt.Errorf("model folder %s: expected model.safetensors or model.safetensors.index.json, found %s", c.dir, found)
	if found == "none" {
		return missing{err}
	}
	return err
}

func (c *Checkpoint) addFile(path string, absent map[string]Absent) error {
	var f *TensorFile
	var err error
	if a, elsewhere := absent[filepath.Base(path)]; elsewhere {
		f, err = openAbsent(path, a)
	} else {
		f, err = OpenTensors(path)
	}
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	for i := range f.header.entries {
		name := f.header.entries[i].name
		if other := c.byName[name]; other != nil {
			return &TensorError{File: path, Tensor: name, Expected: "a tensor that no other file has", Found: "it in " + other.path + " too"}
		}
		c.byName[name] = f
	}
	return nil
}

// check demands every tensor that the configuration needs, with its shape and a type that can be read.
func (c *Checkpoint) check() error {
	for name, shape := range c.config.Tensors() {
		f := c.byName[name]
		if f == nil {
			_, err := c.Tensor(name)
			return fmt.Errorf("%w (config.json: %d layers, %d experts)", err, len(c.config.Layers), c.config.Experts)
		}
		e := &f.header.entries[f.byName[name]]
		if !slices.Equal(e.shape, shape) {
			return &TensorError{File: f.path, Tensor: name, Expected: fmt.Sprintf("shape %v by config.json", shape), Found: fmt.Sprint(e.shape)}
		}
		if e.dtype == F8E4M3 && c.config.BlockFP8 {
			if _, err := c.Tensor(name); err != nil && !errors.As(err, new(*AbsentError)) {
				return err
			}
			continue
		}
		if !e.dtype.Readable() {
			return &TensorError{File: f.path, Tensor: name, Expected: "BF16, F16 or F32", Found: string(e.dtype)}
		}
	}
	return nil
}

// Close unmaps the files; tensors must not be used afterwards.
func (c *Checkpoint) Close() error {
	var all []error
	for _, f := range c.files {
		all = append(all, f.Close())
	}
	return errors.Join(all...)
}

// Dir is the folder.
func (c *Checkpoint) Dir() string { return c.dir }

// Config is the model's configuration.
func (c *Checkpoint) Config() *Config { return c.config }

// Digest is the model digest of DESIGN §4 in hex. It is computed once, at the first call.
func (c *Checkpoint) Digest() (string, error) { return c.digest() }

// Tensor finds a tensor by name; the error says which names look alike.
func (c *Checkpoint) Tensor(name string) (Tensor, error) {
	f := c.byName[name]
	if f == nil {
		return Tensor{}, &TensorError{File: c.dir, Tensor: name, Expected: "a tensor of this name", Found: lookAlike(name, c.Names())}
	}
	t, err := f.Tensor(name)
	if err == nil && t.DType == F8E4M3 && c.config.BlockFP8 {
		t.scales, err = c.blockScales(&t)
	}
	return t, err
}

// Names lists all tensor names, sorted.
func (c *Checkpoint) Names() []string {
	names := make([]string, 0, len(c.byName))
	for name := range c.byName {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Release tells the kernel that the tensor's pages are no longer needed (they were packed). Pages that the tensor shares with
// its neighbours stay.
func (c *Checkpoint) Release(t Tensor) {
	if t.file != nil {
		t.file.release(t)
	}
}
