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

const (
	// pieceBytes is the size of pieces: what is lost at most when a transfer stops.
	pieceBytes    = 16 << 20
	maxPieceBytes = 64 << 20
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
	Piece  int64  `json:"piece_bytes"`
	Files  []File `json:"files"`
}

// File is one of them.
type File struct {
	Name   string   `json:"name"`
	Size   int64    `json:"size"`             // bytes
	Pieces []string `json:"pieces"`           // SHA-256 in hex of each piece
	Header int64    `json:"header,omitempty"` // safetensors: bytes of the header
	Edges  string   `json:"edges,omitempty"`  // safetensors: checkpoint.File.Edges in hex
}

func (f *File) weights() bool { return f.Header > 0 }

// pieces is how many a file has: the header's, then the others', so that a header alone can be had; all are of the manifest's size but the last of both.
func (m *Manifest) pieces(f *File) int64 {
	return (f.Header+m.Piece-1)/m.Piece + (f.Size-f.Header+m.Piece-1)/m.Piece
}

// piece gives the bounds of one.
func (m *Manifest) piece(f *File, i int) (begin, end int64) {
	inHeader := (f.Header + m.Piece - 1) / m.Piece
	if n := int64(i); n < inHeader {
		return n * m.Piece, min((n+1)*m.Piece, f.Header)
	}
	begin = f.Header + (int64(i)-inHeader)*m.Piece
	return begin, min(begin+m.Piece, f.Size)
}

// check demands what everything else relies on: names without folders, sizes that are possible, digests.
func (m *Manifest) check() error {
	if m.Format != formatVersion {
		return fmt.Errorf("format %d, this build reads %d", m.Format, formatVersion)
	}
	if !isDigest(m.Model) {
		return fmt.Errorf("model %q is no digest", m.Model)
	}
	if m.Piece < 1 || m.Piece > maxPieceBytes {
		return fmt.Errorf("pieces of %d bytes: at most %d are possible", m.Piece, maxPieceBytes)
	}
	seen := map[string]bool{}
	for i := range m.Files {
		f := &m.Files[i]
		if f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) || strings.ContainsAny(f.Name, `/\:`) || strings.HasPrefix(f.Name, ".") || seen[f.Name] {
			return fmt.Errorf("file %q: expected is a name, once", f.Name)
		}
		seen[f.Name] = true
		if f.Size < 0 || f.Size > maxFileBytes || f.Header < 0 || f.Header > f.Size || int64(len(f.Pieces)) != m.pieces(f) {
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
