package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// digestEdge is how many bytes of a tensor's beginning and of its end go into the digest.
const digestEdge = 4096

// computeDigest hashes config.json, the index, and for each file, by name, its header and a hash of its tensors' edges. Each
// piece is preceded by its length, so that no two folders give the same stream. Paths and times are not part of it.
func (c *Checkpoint) computeDigest() (string, error) {
	total := sha256.New()
	add(total, []byte("moepool model digest 1"))
	add(total, c.rawConfig)
	add(total, c.rawIndex)
	for _, f := range c.files {
		add(total, f.header.raw)
		edges, err := f.hashEdges()
		if err != nil {
			return "", err
		}
		add(total, edges)
	}
	return hex.EncodeToString(total.Sum(nil)), nil
}

func add(h hash.Hash, piece []byte) {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(piece)))
	h.Write(length[:])
	h.Write(piece)
}

// hashEdges hashes the first and last 4 KiB of each tensor (all of a shorter one), in ascending offsets. A model has thousands
// of tensors, each a seek: blocks of them are hashed by several goroutines, then the blocks' hashes are hashed in order.
func (f *TensorFile) hashEdges() ([]byte, error) {
	if f.edges != nil {
		return f.edges, nil
	}
	const block = 256 // part of the digest's definition
	entries := f.header.entries
	sums := make([][sha256.Size]byte, (len(entries)+block-1)/block)
	var group errgroup.Group
	group.SetLimit(4 * runtime.GOMAXPROCS(0))
	for i := range sums {
		group.Go(func() error {
			h := sha256.New()
			buffer := make([]byte, 2*digestEdge)
			for _, e := range entries[i*block : min((i+1)*block, len(entries))] {
				n, err := f.readEdges(e, buffer)
				if err != nil {
					return err
				}
				add(h, buffer[:n])
			}
			h.Sum(sums[i][:0])
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	total := sha256.New()
	for i := range sums {
		total.Write(sums[i][:])
	}
	return total.Sum(nil), nil
}

// readEdges reads with pread, not through the mapping: a file that was cut after Open is an error here and not a fault.
func (f *TensorFile) readEdges(e entry, buffer []byte) (int, error) {
	size := e.end - e.begin
	if size <= int64(len(buffer)) {
		return f.readAt(buffer[:size], e.begin)
	}
	if _, err := f.readAt(buffer[:digestEdge], e.begin); err != nil {
		return 0, err
	}
	if _, err := f.readAt(buffer[digestEdge:], e.end-digestEdge); err != nil {
		return 0, err
	}
	return len(buffer), nil
}

func (f *TensorFile) readAt(p []byte, offset int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := f.file.ReadAt(p, offset)
	if n == len(p) {
		return n, nil
	}
	return n, fmt.Errorf("%s: read %d bytes at %d: %w (was the file changed?)", f.path, len(p), offset, err)
}
