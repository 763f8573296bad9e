package arena

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// DefaultDir is the folder of arenas in the user's cache; each worker has a folder of its own below.
func DefaultDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no default arena folder: %w", err)
	}
	return filepath.Join(cache, "moepool", "arena"), nil
}

// Space says what a folder's file system offers.
type Space struct {
	Dir        string `json:"dir"` // the folder, or its nearest parent that exists
	FileSystem string `json:"file_system"`
	FreeBytes  int64  `json:"free_bytes"` // for this user
	TotalBytes int64  `json:"total_bytes"`
	Writable   bool   `json:"writable"`
}

// Check asks for the space of a folder that need not exist yet. It creates nothing.
func Check(dir string) (Space, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return Space{}, fmt.Errorf("arena folder %s: %w", dir, err)
	}
	for {
		st, err := os.Stat(at)
		if err == nil && !st.IsDir() {
			return Space{}, fmt.Errorf("arena folder %s: %s is not a folder", dir, at)
		}
		if err == nil {
			break
		}
		parent := filepath.Dir(at)
		if !errors.Is(err, os.ErrNotExist) || parent == at {
			return Space{}, fmt.Errorf("arena folder %s: %w", dir, err)
		}
		at = parent
	}
	s, err := space(at)
	if err != nil {
		return Space{}, fmt.Errorf("arena folder %s: free space of %s: %w", dir, at, err)
	}
	return s, nil
}

// speedPiece is what one write and one read of MeasureDisk transfers.
const speedPiece = 4 << 20

// DiskReads are sequential reads of a file, one after the other.
type DiskReads struct {
	Piece      int64           // bytes of each
	Times      []time.Duration // of each, in order
	FileSystem string
}

// MBPS is the speed in MB/s (10^6 bytes) over all reads.
func (r DiskReads) MBPS() float64 {
	var sum time.Duration
	for _, t := range r.Times {
		sum += t
	}
	return float64(r.Piece) * float64(len(r.Times)) / 1e6 / max(sum, time.Nanosecond).Seconds()
}

// MeasureDisk reads a temporary file of so many bytes (whole pieces of 4 MiB, at least one) in a folder, past the page cache where the
// file system allows it. A virtual machine's host, or the disk, may still have what was just written in a cache of its own.
func MeasureDisk(ctx context.Context, dir string, bytes int64) (DiskReads, error) {
	s, err := Check(dir)
	if err != nil {
		return DiskReads{}, err
	}
	r := DiskReads{Piece: speedPiece, FileSystem: s.FileSystem, Times: make([]time.Duration, max(1, bytes/speedPiece))}
	if all := int64(len(r.Times)) * speedPiece; all > s.FreeBytes/2 {
		return DiskReads{}, fmt.Errorf("disk speed of %s: a file of %d bytes is more than half of the %d free ones", dir, all, s.FreeBytes)
	}
	if err := r.measure(ctx, dir); err != nil {
		return DiskReads{}, fmt.Errorf("disk speed of %s: %w", dir, err)
	}
	return r, nil
}

func (r DiskReads) measure(ctx context.Context, dir string) error {
	f, err := os.CreateTemp(dir, "speed-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	buffer, free, err := Anonymous(speedPiece, "measuring the disk")
	if err != nil {
		return err
	}
	defer free()
	_, _ = rand.NewChaCha8([32]byte{1}).Read(buffer) // not zeros: a file system may compress; never fails
	for range r.Times {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.Write(buffer); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	direct, err := openPastCache(f)
	if err != nil {
		return err
	}
	defer direct.Close()
	for i := range r.Times {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := time.Now()
		if _, err := direct.ReadAt(buffer, int64(i)*speedPiece); err != nil {
			return err
		}
		r.Times[i] = time.Since(start)
	}
	return nil
}

// DiskSpeed is MeasureDisk's speed in MB/s.
func DiskSpeed(dir string, bytes int64) (float64, error) {
	r, err := MeasureDisk(context.Background(), dir, bytes)
	if err != nil {
		return 0, err
	}
	return r.MBPS(), nil
}
