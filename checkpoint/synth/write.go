package synth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/moepool/moepool/checkpoint"
)

// Write writes a checkpoint of the given shape into dir, which is made if it does not exist. See WriteContext.
func Write(dir string, s Spec, progress func(done, total int64)) error {
	return WriteContext(context.Background(), dir, s, progress)
}

// WriteContext writes config.json, generation_config.json, a tokenizer and the weights. It needs memory for a chunk of weights
// per CPU only. progress, if it is not nil, gets the bytes of weights written so far and in all, from one goroutine at a time.
// A folder that is not empty is refused, and so is a disk without the space. config.json comes last, and on an error all files
// are removed again, so that what is left never looks like a model.
func WriteContext(ctx context.Context, dir string, s Spec, progress func(done, total int64)) error {
	text, c, err := s.config()
	if err != nil {
		return err
	}
	shards, err := planShards(&s, c)
	if err != nil {
		return err
	}
	small, err := smallFiles(&s, shards)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := refuseFull(dir); err != nil {
		return err
	}
	if err := checkSpace(dir, shards); err != nil {
		return err
	}
	w := &writer{dir: dir, source: newSource(&s), fills: s.fills(c), routers: s.routerFactors(c), progress: progress}
	for _, file := range shards {
		w.total += file.bytes
	}
	if err := w.writeAll(ctx, shards, append(small, smallFile{"config.json", text})); err != nil {
		return errors.Join(fmt.Errorf("synth: %w", err), w.removeAll())
	}
	return nil
}

type smallFile struct {
	name string
	text []byte
}

// smallFiles are the files beside weights and config.json.
func smallFiles(s *Spec, shards []*shard) ([]smallFile, error) {
	tokens, err := tokensFor(s.Vocabulary)
	if err != nil {
		return nil, err
	}
	generation, err := json.MarshalIndent(map[string]any{"bos_token_id": tokens.bos, "eos_token_id": tokens.eos}, "", "  ")
	if err != nil {
		return nil, err
	}
	files := []smallFile{
		{"generation_config.json", generation},
		{"tokenizer.json", tokens.tokenizer},
		{"tokenizer_config.json", tokens.tokenizerConfig},
	}
	if len(shards) > 1 {
		index, err := encodeIndex(shards)
		if err != nil {
			return nil, err
		}
		files = append(files, smallFile{"model.safetensors.index.json", index})
	}
	return files, nil
}

// refuseFull makes sure that no file is overwritten and no model is mixed with another.
func refuseFull(dir string) error {
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("synth: %s is not empty (it holds %s): empty it or name another folder", dir, found[0].Name())
	}
	return nil
}

// checkSpace compares what will be written with what the file system has left, before the first byte.
func checkSpace(dir string, shards []*shard) error {
	needed := int64(16 << 20) // small files and the file system's own needs
	for _, file := range shards {
		needed += file.bytes + int64(len(file.header))
	}
	free, known := freeBytes(dir)
	if known && free < needed {
		return fmt.Errorf("synth: %s: the model needs %.1f GB, but %.1f GB are available", dir, float64(needed)/1e9, float64(free)/1e9)
	}
	return nil
}

type writer struct {
	dir    string
	source *source
	fills  func(name string, shape []int) fill

	routers map[string][]float64 // factors of the rows' deviations

	mu          sync.Mutex
	done, total int64
	progress    func(done, total int64)
	created     []string // paths
}

func (w *writer) writeAll(ctx context.Context, shards []*shard, small []smallFile) error {
	for _, file := range shards {
		if err := w.writeShard(ctx, file); err != nil {
			return err
		}
	}
	for _, file := range small {
		f, err := w.create(file.name)
		if err != nil {
			return err
		}
		_, err = f.Write(file.text)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) create(name string) (*os.File, error) {
	path := filepath.Join(w.dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		w.created = append(w.created, path)
	}
	return f, err
}

func (w *writer) removeAll() error {
	var all []error
	for _, path := range w.created {
		all = append(all, os.Remove(path))
	}
	return errors.Join(all...)
}

// writeShard writes one file: its chunks are independent, so all CPUs make and write them at their own offsets.
func (w *writer) writeShard(ctx context.Context, file *shard) error {
	f, err := w.create(file.name)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	type job struct {
		tensor checkpoint.TensorInfo
		number int64
		offset int64 // in the file
		length int   // bytes
	}
	jobs := make(chan job)
	group.Go(func() error {
		defer close(jobs)
		offset := int64(len(file.header))
		for _, t := range file.tensors {
			chunk := int64(chunkElements) * (t.Bytes() / elements(t))
			for number, left := int64(0), t.Bytes(); left > 0; number++ {
				j := job{tensor: t, number: number, offset: offset, length: int(min(chunk, left))}
				select {
				case jobs <- j:
				case <-ctx.Done():
					return ctx.Err()
				}
				offset += int64(j.length)
				left -= int64(j.length)
			}
		}
		return nil
	})
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			var buffer []byte
			for j := range jobs {
				if cap(buffer) < j.length {
					buffer = make([]byte, j.length)
				}
				w.fill(buffer[:j.length], j.tensor, j.number)
				if _, err := f.WriteAt(buffer[:j.length], j.offset); err != nil {
					return err
				}
				w.report(int64(j.length))
			}
			return nil
		})
	}
	err = group.Wait()
	if err == nil {
		_, err = f.WriteAt(file.header, 0)
	}
	return errors.Join(err, f.Close())
}

// fill makes the elements of a tensor's chunk.
func (w *writer) fill(dst []byte, t checkpoint.TensorInfo, number int64) {
	f := w.fills(t.Name, t.Shape)
	if factors := w.routers[t.Name]; factors != nil {
		w.source.rowsChunk(dst, t.Name, number, f, t.Shape[1], factors)
		return
	}
	w.source.chunk(dst, t.Name, number, f)
}

// elements is the number of elements of a tensor; every one of a valid configuration has some.
func elements(t checkpoint.TensorInfo) int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

func (w *writer) report(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += bytes
	if w.progress != nil {
		w.progress(w.done, w.total)
	}
}
