// Package fetch brings a model's files from a host that has them to one that lacks them, through a store of pieces that are named by their SHA-256:
// Offer puts them there once, a Folder takes just the files that are needed, continues where it was stopped, and checks every piece. It knows
// files and digests, and must not know what carries the pieces.
package fetch

import "context"

// Store keeps objects by name.
type Store interface {
	Has(ctx context.Context, name string) (bool, error)
	Put(ctx context.Context, name string, data []byte) error
	// Get gives at most limit bytes; a longer object, and one that is not there (ErrNotOffered), are errors.
	Get(ctx context.Context, name string, limit int) ([]byte, error)
	Delete(ctx context.Context, name string) error
}

// Progress is told how many bytes of a file are done, of how many.
type Progress func(file string, done, total int64)
