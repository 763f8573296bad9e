package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// PieceBytes is the size of all pieces of a file but the last: what is lost at most when a transfer stops.
const PieceBytes = 16 << 20

const (
	manifestName  = "manifest"
	maxManifest   = 64 << 20 // bytes; that of a model of a terabyte has 5 MB
	maxFileBytes  = 1 << 44
	formatVersion = 1
)

// ErrNotOffered says that a store has no object of a name: nobody has offered it.
var ErrNotOffered = errors.New("not offered")

// Manifest describes a model's files.
type Manifest struct {
	Format int    `json:"format"` // of the manifest
	Model  string `json:"model"`  // the model's digest (checkpoint.Digest)
	Files  []File `json:"files"`
}

// File is one of them.
type File struct {
	Name   string   `json:"name"`
	Size   int64    `json:"size"`             // bytes
	Pieces []string `json:"pieces"`           // SHA-256 in hex of each PieceBytes, the last one shorter
	Header int64    `json:"header,omitempty"` // safetensors: bytes of the header
	Edges  string   `json:"edges,omitempty"`  // safetensors: checkpoint.File.Edges in hex
}

func (f *File) weights() bool { return f.Header > 0 }

// piece gives the bounds of a piece.
func (f *File) piece(i int) (begin, end int64) {
	begin = int64(i) * PieceBytes
	return begin, min(begin+PieceBytes, f.Size)
}

// check demands what everything else relies on: names without folders, sizes that are possible, digests.
func (m *Manifest) check() error {
	if m.Format != formatVersion {
		return fmt.Errorf("format %d, this build reads %d", m.Format, formatVersion)
	}
	if !isDigest(m.Model) {
		return fmt.Errorf("model %q is no digest", m.Model)
	}
	seen := map[string]bool{}
	for i := range m.Files {
		f := &m.Files[i]
		if f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) || strings.ContainsAny(f.Name, `/\:`) || strings.HasPrefix(f.Name, ".") || seen[f.Name] {
			return fmt.Errorf("file %q: expected is a name, once", f.Name)
		}
		seen[f.Name] = true
		if f.Size < 0 || f.Size > maxFileBytes || f.Header < 0 || f.Header > f.Size || int64(len(f.Pieces)) != (f.Size+PieceBytes-1)/PieceBytes {
			return fmt.Errorf("file %s: %d bytes in %d pieces, header of %d", f.Name, f.Size, len(f.Pieces), f.Header)
		}
		for _, p := range f.Pieces {
			if !isDigest(p) {
				return fmt.Errorf("file %s: %q is no digest", f.Name, p)
			}
		}
		if f.weights() && !isDigest(f.Edges) {
			return fmt.Errorf("file %s: %q is no digest", f.Name, f.Edges)
		}
	}
	return nil
}

func isDigest(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size && text == strings.ToLower(text)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Read gives the manifest of what is offered; ErrNotOffered if nothing is.
func Read(ctx context.Context, s Store) (*Manifest, error) {
	data, err := s.Get(ctx, manifestName, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("the offered model's manifest: %w", err)
	}
	m := &Manifest{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(m)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("the offered model's manifest: %w", err)
	}
	return m, nil
}
