package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

const (
	cacheShards       = 16
	cacheShardEntries = 4096
)

// pieceCache remembers the ids of short pieces. A full shard is emptied: texts have few distinct words, and what is asked again
// comes back at once.
type pieceCache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu  sync.RWMutex
	ids map[string][]int32
	_   [32]byte // keep the locks on different cache lines
}

func (c *pieceCache) shard(piece string) *cacheShard {
	return &c.shards[maphash.String(c.seed, piece)%cacheShards]
}

func (c *pieceCache) get(piece string) ([]int32, bool) {
	s := c.shard(piece)
	s.mu.RLock()
	ids, ok := s.ids[piece]
	s.mu.RUnlock()
	return ids, ok
}

func (c *pieceCache) put(piece string, ids []int32) {
	s := c.shard(piece)
	piece, ids = strings.Clone(piece), slices.Clone(ids) // not to hold the whole text
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil || len(s.ids) >= cacheShardEntries {
		s.ids = make(map[string][]int32)
	}
	s.ids[piece] = ids
}
