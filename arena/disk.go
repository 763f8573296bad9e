package arena

import (
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

// speedPiece is what one write and one read of DiskSpeed transfers.
const speedPiece = 4 << 20

// DiskSpeed measures the folder's sequential read speed in MB/s (10^6) with a temporary file of so many bytes (whole pieces of
// 4 MiB, at least one), past the page cache where the file system allows it.
func DiskSpeed(dir string, bytes int64) (float64, error) {
	pieces := max(1, bytes/speedPiece)
	s, err := Check(dir)
	if err != nil {
		return 0, err
	}
	if pieces*speedPiece > s.FreeBytes/2 {
		return 0, fmt.Errorf("disk speed of %s: a file of %d bytes is more than half of the %d free ones", dir, pieces*speedPiece, s.FreeBytes)
	}
	f, err := os.CreateTemp(dir, "speed-*.tmp")
	if err != nil {
		return 0, fmt.Errorf("disk speed of %s: %w", dir, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	buffer, free, err := Anonymous(speedPiece, "measuring the disk")
	if err != nil {
		return 0, err
	}
	defer free()
	_, _ = rand.NewChaCha8([32]byte{1}).Read(buffer) // not zeros: a file system may compress; never fails
	for range pieces {
		if _, err := f.Write(buffer); err != nil {
			return 0, fmt.Errorf("disk speed of %s: %w", dir, err)
		}
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("disk speed of %s: %w", dir, err)
	}
	direct, err := openPastCache(f)
	if err != nil {
		return 0, fmt.Errorf("disk speed of %s: %w", dir, err)
	}
	defer direct.Close()
	start := time.Now()
	for i := range pieces {
		if _, err := direct.ReadAt(buffer, i*speedPiece); err != nil {
			return 0, fmt.Errorf("disk speed of %s: %w", dir, err)
		}
	}
	return float64(pieces*speedPiece) / 1e6 / time.Since(start).Seconds(), nil
}
