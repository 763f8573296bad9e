// Package division divides a step's expert parts among their owners, so that the one who has most to do has as little as possible. Pure: integers in and
// out, the same on every machine. It must not know what workers are, nor which of them can be used.
package division

import (
	"cmp"
	"slices"
)

// FirstRow is what the first row of an expert part costs an owner, who has to read the part for it, in further rows (placement.RowCost is its inverse).
const FirstRow = 16

// Item is an expert part that a step needs.
type Item struct {
	Rows   int     // that need it; at least 1
	Owners []int32 // who can compute it, numbers from 0; at least one, none twice
	Shares []int   // set by Divide: rows for each of the owners; they add up to Rows
}

// Divider keeps memory from call to call. Its zero value is ready. It isn't for several goroutines at once.
type Divider struct {
	load  []int
	order []int
}

// Divide sets the shares of items that workers (a number above all owners) have to compute. An item is not divided without need, since each owner of a share
// reads the part: first what has one owner is counted; then each other item goes as a whole to the owner with the least to do, those with the
// most rows first; then items or rows of them move away from the worker with the most to do as long as that helps.
func (d *Divider) Divide(workers int, items []Item) {
	d.load = slices.Grow(d.load[:0], workers)[:workers]
	clear(d.load)
	d.order = d.order[:0]
	for i := range items {
		it := &items[i]
		it.Shares = slices.Grow(it.Shares[:0], len(it.Owners))[:len(it.Owners)]
		clear(it.Shares)
		if len(it.Owners) > 1 {
			d.order = append(d.order, i)
			continue
		}
		it.Shares[0] = it.Rows
		d.load[it.Owners[0]] += FirstRow - 1 + it.Rows
	}
	slices.SortFunc(d.order, func(a, b int) int { return cmp.Or(items[b].Rows-items[a].Rows, a-b) })
	for _, i := range d.order {
		it, best := &items[i], 0
		for o, w := range it.Owners {
			if d.load[w] < d.load[it.Owners[best]] {
				best = o
			}
		}
		it.Shares[best] = it.Rows
		d.load[it.Owners[best]] += FirstRow - 1 + it.Rows
	}
	// Each round lowers the load of a worker that has the most; the bound is for time.
	for range 2*workers + 2 {
		if !d.relieve(items) {
			return
		}
	}
}

// Load is what a worker has to do after Divide, in rows.
func (d *Divider) Load(worker int) int { return d.load[worker] }

// relieve moves rows of one item from the worker with the most to do to another owner; false if none helps.
func (d *Divider) relieve(items []Item) bool {
	most := 0
	for w, load := range d.load {
		if load > d.load[most] {
			most = w
		}
	}
	best := struct{ item, from, to, rows, high int }{high: d.load[most]}
	for _, i := range d.order {
		it := &items[i]
		from := slices.Index(it.Owners, int32(most))
		if from < 0 || it.Shares[from] == 0 {
			continue
		}
		all := it.Shares[from]
		for to, w := range it.Owners {
			if to == from {
				continue
			}
			first := FirstRow - 1
			if it.Shares[to] > 0 {
				first = 0
			}
			other := d.load[w] + first
			if high := max(d.load[most]-all-FirstRow+1, other+all); high < best.high {
				best = struct{ item, from, to, rows, high int }{i, from, to, all, high}
			}
			some := min((d.load[most]-other)/2, all-1)
			if some < 1 {
				continue
			}
			// Two owners read the part then; that must be worth something.
			if high := max(d.load[most]-some, other+some); high < best.high && high <= d.load[most]-first/2 {
				best = struct{ item, from, to, rows, high int }{i, from, to, some, high}
			}
		}
	}
	if best.rows == 0 {
		return false
	}
	it := &items[best.item]
	if it.Shares[best.to] == 0 {
		d.load[it.Owners[best.to]] += FirstRow - 1
	}
	it.Shares[best.from] -= best.rows
	it.Shares[best.to] += best.rows
	d.load[it.Owners[best.to]] += best.rows
	d.load[most] -= best.rows
	if it.Shares[best.from] == 0 {
		d.load[most] -= FirstRow - 1
	}
	return true
}
