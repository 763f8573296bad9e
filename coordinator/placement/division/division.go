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

// change is rows of an item that move from one of its owners to another.
type change struct{ item, from, to, rows int }

// relieve moves rows of an item from the worker with the most to do to another owner, and if that alone doesn't help, an item from there to a third
// worker, too; false if nothing helps.
func (d *Divider) relieve(items []Item) bool {
	most := 0
	for w, load := range d.load {
		if load > d.load[most] {
			most = w
		}
	}
	if c, ok := d.oneChange(items, most); ok {
		d.apply(items, c)
		return true
	}
	if first, second, ok := d.twoChanges(items, most); ok {
		d.apply(items, first)
		d.apply(items, second)
		return true
	}
	return false
}

func (d *Divider) oneChange(items []Item, most int) (best change, ok bool) {
	least := d.load[most]
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
			read := it.read(to)
			other := d.load[w] + read
			if high := max(d.load[most]-all-FirstRow+1, other+all); high < least {
				best, least, ok = change{i, from, to, all}, high, true
			}
			some := min((d.load[most]-other)/2, all-1)
			if some < 1 {
				continue
			}
			// Two owners read the part then; that must be worth something.
			if high := max(d.load[most]-some, other+some); high < least && high <= d.load[most]-read/2 {
				best, least, ok = change{i, from, to, some}, high, true
			}
		}
	}
	return best, ok
}

// twoChanges looks for two items that move as wholes: one away from the worker with the most to do, another one away from where that goes.
func (d *Divider) twoChanges(items []Item, most int) (first, second change, ok bool) {
	least := d.load[most]
	for _, i := range d.order {
		it := &items[i]
		from := slices.Index(it.Owners, int32(most))
		if from < 0 || it.Shares[from] == 0 {
			continue
		}
		all := it.Shares[from]
		left := d.load[most] - all - FirstRow + 1
		for to, middle := range it.Owners {
			if to == from || left >= least {
				continue
			}
			for _, j := range d.order {
				other := &items[j]
				at := slices.Index(other.Owners, middle)
				if j == i || at < 0 || other.Shares[at] == 0 {
					continue
				}
				rows := other.Shares[at]
				between := d.load[middle] + it.read(to) + all - rows - FirstRow + 1
				if between >= least {
					continue
				}
				for end, w := range other.Owners {
					if end == at || int(w) == most {
						continue
					}
					if high := max(left, between, d.load[w]+other.read(end)+rows); high < least {
						first, second, least, ok = change{i, from, to, all}, change{j, at, end, rows}, high, true
					}
				}
			}
		}
	}
	return first, second, ok
}

// read is what an owner has to do for reading the part, if it doesn't already.
func (it *Item) read(owner int) int {
	if it.Shares[owner] > 0 {
		return 0
	}
	return FirstRow - 1
}

func (d *Divider) apply(items []Item, c change) {
	it := &items[c.item]
	d.load[it.Owners[c.to]] += it.read(c.to) + c.rows
	it.Shares[c.to] += c.rows
	it.Shares[c.from] -= c.rows
	d.load[it.Owners[c.from]] -= it.read(c.from) + c.rows
}
