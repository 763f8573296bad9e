package worker

import (
	"fmt"

	"github.com/moepool/moepool/internal/bytesize"
	"github.com/moepool/moepool/transport"
)

// fitWatch finds out whether a worker's experts fit into the memory that they have: values in, one warning out.
//
// Reading each expert once is a cold start. Who has read more than all experts, or more than its limit has room for, reads some again; from
// then on it is watched for a while.
type fitWatch struct {
	begun bool
	from  usage // when the watch began
	said  bool
}

// usage is what a worker has used so far.
type usage struct {
	transport.ResidencyReport
	busy float64 // seconds that it has computed
}

const (
	// watchSeconds of computing tell how it goes on.
	watchSeconds = 3.0
	// fittingHits is the share of hits from which on reading isn't worth a word.
	fittingHits = 0.99
)

// look takes what was used until now by a worker whose experts have so many bytes. It gives the text of a warning, once; "": none.
func (f *fitWatch) look(now usage, experts int64) string {
	room := experts
	if now.Limit > 0 {
		room = min(room, now.Limit)
	}
	if f.said || experts == 0 || now.MissBytes <= room {
		return ""
	}
	if !f.begun {
		f.begun, f.from = true, now
		return ""
	}
	busy := now.busy - f.from.busy
	if busy < watchSeconds {
		return ""
	}
	hits, misses := now.Hits-f.from.Hits, now.Misses-f.from.Misses
	read, faults := now.BytesRead-f.from.BytesRead, now.MajorFaults-f.from.MajorFaults
	f.from = now
	share := float64(hits) / max(1, float64(hits+misses))
	if hits+misses == 0 || share >= fittingHits {
		return ""
	}
	f.said = true
	kept := fmt.Sprintf("of which the kernel keeps %s in memory", bytesize.Text(now.Resident))
	if now.Limit > 0 {
		kept = fmt.Sprintf("of which %s may be in memory (--resident-limit)", bytesize.Text(now.Limit))
	}
	return fmt.Sprintf("the experts don't fit: they take %s, %s; %.0f %% were in memory when they were needed, %.0f MB are read and %.0f major faults happen "+
		"in each second of computing. More memory, more workers or an --expert-budget make it faster", bytesize.Text(experts), kept, 100*share,
		float64(read)/busy/1e6, float64(faults)/busy)
}
