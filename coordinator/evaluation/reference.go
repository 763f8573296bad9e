package evaluation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"
)

// Reference is the logits of a run over windows, exact, in a temporary file: other runs of the same windows are compared with it.
type Reference struct {
	windows    [][]int32
	vocabulary int
	first      []int64 // of each window: predicted positions of those before
	file       *os.File
	row        []float32
}

// ReferenceBytes is the size of the file that a reference needs: a float32 for each predicted token and id of the vocabulary.
func ReferenceBytes(windows [][]int32, vocabulary int) int64 {
	return int64(Predicted(windows)) * int64(vocabulary) * 4
}

// newReference makes the file. Where the system allows that it has no name, so that nothing stays behind however the process ends.
func newReference(windows [][]int32, vocabulary int, dir string) (*Reference, error) {
	r := &Reference{windows: windows, vocabulary: vocabulary}
	for n, i := int64(0), 0; i < len(windows); i++ {
		r.first = append(r.first, n)
		n += int64(max(0, len(windows[i])-1))
	}
	var err error
	if r.file, err = os.CreateTemp(dir, "moepool-reference-*"); err != nil {
		return nil, fmt.Errorf("the reference's logits: %w", err)
	}
	_ = os.Remove(r.file.Name()) // Windows refuses while it is open: Close does it there
	return r, nil
}

// Record runs an engine over windows and keeps its logits in a new temporary file of dir ("" is the system's folder), which takes
// ReferenceBytes. The caller closes the reference.
func Record(ctx context.Context, e Engine, windows [][]int32, vocabulary int, f Feed, dir string) (*Reference, Result, error) {
	r, err := newReference(windows, vocabulary, dir)
	if err != nil {
		return nil, Result{}, err
	}
	var result Result
	result.Elapsed, err = f.predict(ctx, e, windows, func(at place, logits []float32) error {
		if err := r.keep(at, logits); err != nil {
			return err
		}
		result.count(float64(logits[windows[at.window][at.position+1]]) - logSumExp(logits))
		return nil
	})
	if err != nil {
		return nil, result, errors.Join(err, r.Close())
	}
	return r, result, nil
}

// keep writes the logits of a position.
func (r *Reference) keep(at place, logits []float32) error {
	if err := r.check(logits); err != nil {
		return err
	}
	if _, err := r.file.WriteAt(bytesOf(logits), r.offset(at)); err != nil {
		return fmt.Errorf("the reference's logits: %w", err)
	}
	return nil
}

// Close removes the file.
func (r *Reference) Close() error {
	err := r.file.Close()
	if e := os.Remove(r.file.Name()); e != nil && !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

func (r *Reference) check(logits []float32) error {
	if len(logits) != r.vocabulary {
		return fmt.Errorf("%d logits a position, the reference has %d: the vocabularies differ", len(logits), r.vocabulary)
	}
	return nil
}

func (r *Reference) offset(at place) int64 {
	return (r.first[at.window] + int64(at.position)) * int64(r.vocabulary) * 4
}

// at reads the logits of a position; they are valid until the next call.
func (r *Reference) at(p place) ([]float32, error) {
	if r.row == nil {
		r.row = make([]float32, r.vocabulary)
	}
	if _, err := r.file.ReadAt(bytesOf(r.row), r.offset(p)); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the reference's logits: %w", err)
	}
	return r.row, nil
}

// bytesOf is the memory of values: the file is read by the process that wrote it.
func bytesOf(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}

// Compare runs an engine over the reference's windows and gives its perplexity and its divergence from the reference.
func (r *Reference) Compare(ctx context.Context, e Engine, f Feed) (Result, error) {
	d := &Divergence{}
	var p prediction
	elapsed, err := f.predict(ctx, e, r.windows, func(at place, logits []float32) error {
		if err := r.check(logits); err != nil {
			return err
		}
		reference, err := r.at(at)
		if err != nil {
			return err
		}
		p.set(reference, r.windows[at.window][at.position+1])
		d.add(&p, logits)
		return nil
	})
	slices.Sort(d.KLD)
	return Result{Perplexity: d.Run, Divergence: d, Elapsed: elapsed}, err
}
