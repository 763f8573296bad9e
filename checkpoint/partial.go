package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Absent describes a safetensors file that is not here: what the whole model's digest needs of it, and the place of its header.
type Absent struct {
	Beginning string // path of a file that begins as the absent one does, at least to the end of the header
	Size      int64  // bytes of the whole file
	Edges     []byte // File.Edges of whoever has it
}

// AbsentError says that a tensor lies in a file that OpenPartial was told is absent.
type AbsentError struct {
	File   string // its name
	Tensor string
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("tensor %s is in %s, which is not on this host", e.Tensor, e.File)
}

// OpenPartial is Open for a folder that lacks some safetensors files, by name. Configuration, names, shapes and digest are those of the whole model;
// a tensor of an absent file is an *AbsentError until Attach.
func OpenPartial(dir string, absent map[string]Absent) (*Checkpoint, error) {
	c, err := open(dir, absent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing{err}
	}
	return c, err
}

// Attach opens a file of the folder that was absent until now. It must have the header that was said.
func (c *Checkpoint) Attach(name string) error {
	for _, f := range c.files {
		if filepath.Base(f.path) == name {
			return f.attach()
		}
	}
	return fmt.Errorf("%s is no file of model %s", name, c.dir)
}

// File is a safetensors file of a model.
type File struct {
	Name   string
	Size   int64 // bytes
	Header int64 // bytes of the header, length prefix included
	Edges  []byte
}

// Files describes the safetensors files, ascending names; it reads the edges of all tensors.
func (c *Checkpoint) Files() ([]File, error) {
	var all []File
	for _, f := range c.files {
		edges, err := f.hashEdges()
		if err != nil {
			return nil, err
		}
		all = append(all, File{Name: filepath.Base(f.path), Size: f.size, Header: int64(len(f.header.raw)), Edges: edges})
	}
	return all, nil
}

// openAbsent reads the header of a file that is not here. If what was to stand for it is gone, another process may have completed it.
func openAbsent(path string, a Absent) (*TensorFile, error) {
	beginning, err := os.Open(a.Beginning)
	if err != nil {
		if whole, wholeErr := OpenTensors(path); wholeErr == nil {
			return whole, nil
		}
		return nil, err
	}
	defer beginning.Close()
	h, err := readHeader(path, beginning, a.Size)
	if err != nil {
		return nil, err
	}
	t := newTensorFile(path, a.Size, h)
	t.edges = slices.Clone(a.Edges)
	t.absent.Store(true)
	return t, nil
}

func (f *TensorFile) attach() error {
	f.attaching.Lock()
	defer f.attaching.Unlock()
	if !f.absent.Load() {
		return nil
	}
	whole, err := OpenTensors(f.path)
	if err != nil {
		return err
	}
	if whole.size != f.size || !bytes.Equal(whole.header.raw, f.header.raw) {
		whole.Close()
		return &TensorError{File: f.path, Expected: fmt.Sprintf("%d bytes and the header that was announced", f.size), Found: fmt.Sprintf("%d bytes or another header", whole.size)}
	}
	f.file, f.mapping = whole.file, whole.mapping
	f.absent.Store(false) // after the fields that it guards
	return nil
}
