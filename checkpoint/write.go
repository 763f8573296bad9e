package checkpoint

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// TensorInfo describes a tensor that is going to be written.
type TensorInfo struct {
	Name  string
	DType DType
	Shape []int
}

// Bytes is the size of the tensor's data.
func (t TensorInfo) Bytes() int64 {
	n := int64(t.DType.size())
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// EncodeHeader gives the beginning of a safetensors file (length prefix and JSON, padded to a multiple of 64 bytes with spaces)
// whose data are the tensors in the given order, without gaps.
func EncodeHeader(tensors []TensorInfo, metadata map[string]string) ([]byte, error) {
	text := []byte{'{'}
	member := func(name string, value any) error {
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(append(append(text, key...), ':'), encoded...)
		return nil
	}
	if metadata != nil {
		if err := member("__metadata__", metadata); err != nil {
			return nil, err
		}
	}
	begin, seen := int64(0), map[string]bool{}
	for _, t := range tensors {
		if _, known := bitsOf[t.DType]; !known || t.DType.size() == 0 {
			return nil, &TensorError{Tensor: t.Name, Expected: "an element type of whole bytes", Found: string(t.DType)}
		}
		if seen[t.Name] {
			return nil, &TensorError{Tensor: t.Name, Expected: "one tensor of this name", Found: "two"}
		}
		seen[t.Name] = true
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		end := begin + t.Bytes()
		if err := member(t.Name, struct {
			DType       DType    `json:"dtype"`
			Shape       []int    `json:"shape"`
			DataOffsets [2]int64 `json:"data_offsets"`
		}{t.DType, shape, [2]int64{begin, end}}); err != nil {
			return nil, err
		}
		begin = end
	}
	text = append(text, '}')
	for (8+len(text))%64 != 0 {
		text = append(text, ' ')
	}
	if len(text) > maxHeader {
		return nil, fmt.Errorf("a safetensors header of %d bytes is longer than the format's %d", len(text), maxHeader)
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}

// Floats is a float32 tensor in memory; Shape's product must be len(Data).
type Floats struct {
	Name  string
	Shape []int
	Data  []float32
}

// WriteTensors writes float32 tensors as a safetensors file. It writes to a temporary file beside path, syncs and renames it, so
// that path is whole or as it was.
func WriteTensors(path string, tensors []Floats) (err error) {
	infos := make([]TensorInfo, len(tensors))
	for i, t := range tensors {
		infos[i] = TensorInfo{Name: t.Name, DType: F32, Shape: t.Shape}
		if infos[i].Bytes() != 4*int64(len(t.Data)) {
			return &TensorError{File: path, Tensor: t.Name, Expected: fmt.Sprintf("as many values as shape %v has", t.Shape), Found: fmt.Sprint(len(t.Data))}
		}
	}
	header, err := EncodeHeader(infos, nil)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
		}
	}()
	if err := writeFloats(f, header, tensors); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func writeFloats(f *os.File, header []byte, tensors []Floats) error {
	w := bufio.NewWriterSize(f, 1<<20)
	w.Write(header) // bufio keeps the first error for Flush
	for _, t := range tensors {
		var element [4]byte
		for _, x := range t.Data {
			binary.LittleEndian.PutUint32(element[:], math.Float32bits(x))
			w.Write(element[:])
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	return f.Sync()
}
