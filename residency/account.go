package residency

import "slices"

// Account is a worker's ledger with its ghost: a second ledger of the same policy and limit that is asked for what was wanted before the budget cut it. What the ghost had
// to read, less what the ledger did, is what the budget did not read. If it has a recorder, all calls are recorded in their order.
type Account struct {
	*Ledger
	ghost    *Ledger
	recorder *Recorder
	wanted   []uint32
}

// NewAccount makes an account of a ledger and its clone; recorder may be nil. The ledger must be used through the account only, from its beginning on.
func NewAccount(l *Ledger, recorder *Recorder) *Account {
	return &Account{Ledger: l, ghost: l.Clone(), recorder: recorder}
}

// Work accounts for one work: parts of a layer are computed. cut are the parts that the budget dropped since the work before, in the order of the layers; if the last of
// them is of this layer, it belongs to this request. filled are those of parts that are there only in place of dropped ones. All are ascending and distinct. ghostBytes is
// what the ghost had to read for the cut layers and this one.
func (a *Account) Work(layer int, parts, filled []uint32, cut []LayerParts) (out Outcome, ghostBytes int64) {
	a.recorder.work(layer, parts, filled, cut)
	wanted := parts
	if len(cut) > 0 || len(filled) > 0 {
		here := []uint32(nil)
		if n := len(cut); n > 0 && cut[n-1].Layer == layer {
			here, cut = cut[n-1].Parts, cut[:n-1]
		}
		for _, c := range cut {
			ghostBytes += a.ghost.Request(c.Layer, c.Parts).MissBytes
		}
		a.wanted = before(a.wanted[:0], parts, filled, here)
		wanted = a.wanted
	}
	ghostBytes += a.ghost.Request(layer, wanted).MissBytes
	return a.Ledger.Request(layer, parts), ghostBytes
}

// before appends parts without filled and with cut, ascending and distinct.
func before(dst, parts, filled, cut []uint32) []uint32 {
	for _, id := range parts {
		if _, isFilled := slices.BinarySearch(filled, id); !isFilled {
			dst = append(dst, id)
		}
	}
	dst = append(dst, cut...)
	slices.Sort(dst)
	return slices.Compact(dst)
}

// GhostBytes are what the ghost had to read so far, for requests.
func (a *Account) GhostBytes() int64 { return a.ghost.counters.MissBytes }

// Insert is the ledger's; the ghost gets the same.
func (a *Account) Insert(p Part) bool {
	a.recorder.change("insert", p)
	a.ghost.Insert(p)
	return a.Ledger.Insert(p)
}

// Prefetch is the ledger's; the ghost gets the same hint.
func (a *Account) Prefetch(p Part) (evict []Part, ok bool) {
	a.recorder.change("prefetch", p)
	a.ghost.Prefetch(p)
	return a.Ledger.Prefetch(p)
}

// Remove is the ledger's; the ghost gets the same.
func (a *Account) Remove(p Part) {
	a.recorder.change("remove", p)
	a.ghost.Remove(p)
	a.Ledger.Remove(p)
}

// Seed is the ledger's; the ghost gets the same.
func (a *Account) Seed(profile []Heat) {
	a.recorder.seed(profile)
	a.ghost.Seed(profile)
	a.Ledger.Seed(profile)
}

// Request is Work of which nothing was cut.
func (a *Account) Request(layer int, ids []uint32) Outcome {
	out, _ := a.Work(layer, ids, nil, nil)
	return out
}

// Totals are the worker's own counters, which a replay must find again.
func (a *Account) Totals() Totals { return Totals{Counters: a.counters, GhostBytes: a.GhostBytes()} }

// Totals are the counters of an account.
type Totals struct {
	Counters
	GhostBytes int64 `json:"ghost_bytes"`
}

// Close ends the recording, if there is one, with the totals.
func (a *Account) Close() error { return a.recorder.end(a.Totals()) }
