package fetch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/moepool/moepool/checkpoint"
)

// partialSuffix is that of a file of which only the beginning is here.
const partialSuffix = ".partial"

// Folder is a model's folder that is filled as far as it is needed. Several processes of one host may share it. Not for concurrent use.
type Folder struct {
	store      Store
	manifest   *Manifest
	dir        string
	progress   Progress
	checkpoint *checkpoint.Checkpoint
}

// Open gives the model of a folder, which is made if it does not exist. progress is told of what comes from the store. What its configuration needs is fetched, and of weights that are not
// there the headers; tensors of those files are *checkpoint.AbsentError until Fetch. A folder that holds another model is an error. The checkpoint is
// the caller's to close.
func Open(ctx context.Context, s Store, m *Manifest, dir string, progress Progress) (*Folder, *checkpoint.Checkpoint, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	f := &Folder{store: s, manifest: m, dir: dir, progress: progress}
	absent := map[string]checkpoint.Absent{}
	for i := range m.Files {
		file := &m.Files[i]
		if !file.weights() {
			if err := f.small(ctx, file); err != nil {
				return nil, nil, fmt.Errorf("fetch %s: %w", file.Name, err)
			}
			continue
		}
		here, err := f.here(file)
		if err != nil {
			return nil, nil, err
		}
		if here {
			continue
		}
		if here, err = f.fill(ctx, file, file.Header); err != nil {
			return nil, nil, fmt.Errorf("fetch %s: %w", file.Name, err)
		}
		if !here {
			edges, _ := hex.DecodeString(file.Edges) // checked
			absent[file.Name] = checkpoint.Absent{Beginning: f.path(file) + partialSuffix, Size: file.Size, Edges: edges}
		}
	}
	c, err := checkpoint.OpenPartial(dir, absent)
	if err != nil {
		return nil, nil, err
	}
	digest, err := c.Digest()
	if err == nil && digest != m.Model {
		err = fmt.Errorf("model folder %s holds another model (digest %s) than the one that is offered (%s)", dir, digest, m.Model)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	f.checkpoint = c
	return f, c, nil
}

// Fetch brings a file of weights here and opens it.
func (f *Folder) Fetch(ctx context.Context, name string) error {
	for i := range f.manifest.Files {
		file := &f.manifest.Files[i]
		if file.Name != name {
			continue
		}
		if _, err := f.fill(ctx, file, file.Size); err != nil {
			return fmt.Errorf("fetch %s: %w", name, err)
		}
		return f.checkpoint.Attach(name)
	}
	return fmt.Errorf("fetch %s: %w", name, ErrNotOffered)
}

func (f *Folder) path(file *File) string { return filepath.Join(f.dir, file.Name) }

// ErrForeign is the error of a folder that holds another model's file.
var ErrForeign = errors.New("another model? Remove it, or name another folder")

// here says whether a file is there; one of another size is an error, since it is not ours to replace.
func (f *Folder) here(file *File) (bool, error) {
	info, err := os.Stat(f.path(file))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err == nil && info.Size() != file.Size {
		err = fmt.Errorf("%s has %d bytes, the offered one %d: %w", f.path(file), info.Size(), file.Size, ErrForeign)
	}
	return err == nil, err
}

// small brings a file of the configuration here, if a worker needs it.
func (f *Folder) small(ctx context.Context, file *File) error {
	switch file.Name {
	case "config.json", "generation_config.json", "model.safetensors.index.json":
	default:
		return nil // text is the coordinator's
	}
	if here, err := f.here(file); here || err != nil {
		return err
	}
	_, err := f.fill(ctx, file, file.Size)
	return err
}

// fill brings a file's first bytes (in whole pieces) into its partial file, which gets its own name once it is whole: then whole is true. What is
// in it already is checked and kept. One process at a time does that.
func (f *Folder) fill(ctx context.Context, file *File, bytes int64) (whole bool, err error) {
	path := f.path(file) + partialSuffix
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return false, err
	}
	defer unlock()
	if here, err := f.here(file); here || err != nil { // another process was first
		return here, err
	}
	partial, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return false, err
	}
	defer partial.Close()
	for i := range file.Pieces {
		begin, end := f.manifest.piece(file, i)
		if begin >= bytes {
			return false, partial.Sync()
		}
		taken, err := f.piece(ctx, partial, file, i)
		if err != nil {
			return false, err
		}
		if taken {
			f.progress(file.Name, end, file.Size)
		}
	}
	if err := partial.Truncate(file.Size); err != nil {
		return false, err
	}
	if err := partial.Sync(); err != nil {
		return false, err
	}
	return true, os.Rename(path, f.path(file))
}

// piece makes sure that a piece is in the partial file; taken: it had to come from the store.
func (f *Folder) piece(ctx context.Context, partial *os.File, file *File, i int) (taken bool, err error) {
	begin, end := f.manifest.piece(file, i)
	buffer := make([]byte, end-begin)
	if _, err := io.ReadFull(io.NewSectionReader(partial, begin, end-begin), buffer); err == nil && digest(buffer) == file.Pieces[i] {
		return false, nil
	}
	data, err := f.store.Get(ctx, file.Pieces[i], int(f.manifest.Piece))
	if err != nil {
		return false, err
	}
	if int64(len(data)) != end-begin || digest(data) != file.Pieces[i] {
		return false, fmt.Errorf("piece %d (%s) came with %d bytes and digest %s", i, file.Pieces[i], len(data), digest(data))
	}
	_, err = partial.WriteAt(data, begin)
	return err == nil, err
}
