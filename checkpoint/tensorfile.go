package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// TensorFile is one open safetensors file, read through a read-only mapping. Its methods may be called concurrently.
type TensorFile struct {
	path    string
	file    *os.File
	size    int64
	mapping *mapping
	header  *header
	byName  map[string]int // index into header.entries
	close   sync.Once

	absent    atomic.Bool // file and mapping are not there (partial.go)
	attaching sync.Mutex
	edges     []byte // hashEdges of one that is absent
}

// OpenTensors opens a safetensors file and checks its header against the file's size.
func OpenTensors(path string) (*TensorFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t, err := openTensors(path, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

func openTensors(path string, f *os.File) (*TensorFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &TensorError{File: path, Expected: "a regular file", Found: info.Mode().Type().String()}
	}
	h, err := readHeader(path, f, info.Size())
	if err != nil {
		return nil, err
	}
	m, err := newMapping(f, info.Size())
	if err != nil {
		return nil, err
	}
	t := newTensorFile(path, info.Size(), h)
	t.file, t.mapping = f, m
	return t, nil
}

func newTensorFile(path string, size int64, h *header) *TensorFile {
	t := &TensorFile{path: path, size: size, header: h, byName: make(map[string]int, len(h.entries))}
	for i := range h.entries {
		t.byName[h.entries[i].name] = i
	}
	return t
}

// Close unmaps the file; its tensors must not be used afterwards.
func (f *TensorFile) Close() error {
	var err error
	f.close.Do(func() {
		if f.absent.Load() {
			return
		}
		err = f.mapping.close()
		if e := f.file.Close(); err == nil {
			err = e
		}
	})
	return err
}

// Names lists the tensors, sorted.
func (f *TensorFile) Names() []string {
	names := make([]string, len(f.header.entries))
	for i := range f.header.entries {
		names[i] = f.header.entries[i].name
	}
	slices.Sort(names)
	return names
}

// Tensor finds a tensor by name; the error says which names look alike.
func (f *TensorFile) Tensor(name string) (Tensor, error) {
	i, found := f.byName[name]
	if !found {
		return Tensor{}, &TensorError{File: f.path, Tensor: name, Expected: "a tensor of this name", Found: lookAlike(name, f.Names())}
	}
	if f.absent.Load() {
		return Tensor{}, &AbsentError{File: filepath.Base(f.path), Tensor: name}
	}
	e := &f.header.entries[i]
	data, err := f.mapping.bytes(e.begin, e.end)
	if err != nil {
		return Tensor{}, err
	}
	return Tensor{Name: name, File: f.path, DType: e.dtype, Shape: e.shape, Data: data, file: f, offset: e.begin}, nil
}

// Float32s gives all elements of a BF16, F16 or F32 tensor.
func (f *TensorFile) Float32s(name string) ([]float32, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	if !t.DType.Readable() {
		return nil, &TensorError{File: f.path, Tensor: name, Expected: "BF16, F16 or F32", Found: string(t.DType)}
	}
	return t.Float32(), nil
}

// Int32s gives all elements of an I32, I64 or U8 tensor; a value that int32 cannot hold is an error.
func (f *TensorFile) Int32s(name string) ([]int32, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	values := make([]int32, t.Rows()*t.Columns())
	for i := range values {
		switch t.DType {
		case U8:
			values[i] = int32(t.Data[i])
		case I32:
			values[i] = int32(binary.LittleEndian.Uint32(t.Data[4*i:]))
		case I64:
			wide := int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
			if wide < math.MinInt32 || wide > math.MaxInt32 {
				return nil, &TensorError{File: f.path, Tensor: name, Expected: "values within int32", Found: fmt.Sprint(wide)}
			}
			values[i] = int32(wide)
		default:
			return nil, &TensorError{File: f.path, Tensor: name, Expected: "U8, I32 or I64", Found: string(t.DType)}
		}
	}
	return values, nil
}

// release tells the kernel that the pages wholly inside the tensor are no longer needed.
func (f *TensorFile) release(t Tensor) {
	page := int64(os.Getpagesize())
	begin := (t.offset + page - 1) / page * page
	end := (t.offset + int64(len(t.Data))) / page * page
	if begin < end {
		f.mapping.release(f.file, begin, end)
	}
}
