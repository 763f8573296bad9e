package fetch

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/moepool/moepool/checkpoint"
)

// smallFiles are what a model's folder may have beside weights. Others are not offered.
var smallFiles = []string{
	"config.json", "generation_config.json", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model",
	"special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json",
}

// Offer puts a model's files into the store and then says so with a manifest. Pieces that are there already are not sent again, so an offer that was
// stopped goes on; a model that is offered already (by its digest) is left as it is. Pieces of a formerly offered model go.
func Offer(ctx context.Context, s Store, c *checkpoint.Checkpoint, progress Progress) (*Manifest, error) {
	return offer(ctx, s, c, pieceBytes, progress)
}

func offer(ctx context.Context, s Store, c *checkpoint.Checkpoint, piece int64, progress Progress) (*Manifest, error) {
	model, err := c.Digest()
	if err != nil {
		return nil, err
	}
	former, err := Read(ctx, s)
	if err != nil && !errors.Is(err, ErrNotOffered) {
		return nil, err
	}
	if former != nil && former.Model == model {
		return former, nil
	}
	m := &Manifest{Format: formatVersion, Model: model, Piece: piece}
	for _, name := range smallFiles {
		info, err := os.Stat(filepath.Join(c.Dir(), name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.Files = append(m.Files, File{Name: name, Size: info.Size()})
	}
	weights, err := c.Files()
	if err != nil {
		return nil, err
	}
	for _, w := range weights {
		m.Files = append(m.Files, File{Name: w.Name, Size: w.Size, Header: w.Header, Edges: hex.EncodeToString(w.Edges)})
	}
	for i := range m.Files {
		if err := m.offer(ctx, s, &m.Files[i], c.Dir(), progress); err != nil {
			return nil, fmt.Errorf("offer %s: %w", m.Files[i].Name, err)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(text) > maxManifest {
		return nil, fmt.Errorf("a manifest of %d bytes: at most %d are possible", len(text), maxManifest)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := s.Put(ctx, manifestName, text); err != nil {
		return nil, err
	}
	if former == nil {
		return m, nil
	}
	return m, former.withdraw(ctx, s, m)
}

// offer puts a file's pieces there.
func (m *Manifest) offer(ctx context.Context, s Store, f *File, dir string, progress Progress) error {
	file, err := os.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := make([]byte, min(m.Piece, f.Size))
	for i := range int(m.pieces(f)) {
		begin, end := m.piece(f, i)
		piece := buffer[:end-begin]
		if _, err := io.ReadFull(io.NewSectionReader(file, begin, end-begin), piece); err != nil {
			return err
		}
		name := digest(piece)
		there, err := s.Has(ctx, name)
		if err != nil {
			return err
		}
		if !there {
			if err := s.Put(ctx, name, piece); err != nil {
				return err
			}
		}
		f.Pieces = append(f.Pieces, name)
		progress(f.Name, end, f.Size)
	}
	return nil
}

// withdraw deletes the pieces that the new manifest does not have.
func (m *Manifest) withdraw(ctx context.Context, s Store, n *Manifest) error {
	var kept, all []string
	for i := range n.Files {
		kept = append(kept, n.Files[i].Pieces...)
	}
	slices.Sort(kept)
	for i := range m.Files {
		all = append(all, m.Files[i].Pieces...)
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		if _, found := slices.BinarySearch(kept, name); found {
			continue
		}
		if err := s.Delete(ctx, name); err != nil && !errors.Is(err, ErrNotOffered) {
			return fmt.Errorf("withdraw a former model: %w", err)
		}
	}
	return nil
}
