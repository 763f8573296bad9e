package hostinfo

import (
	"fmt"

	"github.com/moepool/moepool/internal/bytesize"
)

// Room is what the control groups leave for page cache that this process brings in and means to keep.
type Room struct {
	Bytes         int64  `json:"bytes"`         // Unlimited if no group's limit is below the host's memory
	Limit         int64  `json:"limit"`         // of the group that leaves least
	Unreclaimable int64  `json:"unreclaimable"` // used in that group and not page cache: it can't be taken back
	Needs         int64  `json:"needs"`         // what the caller said that will still be taken
	Reserve       int64  `json:"reserve"`       // for the kernel, for other files' pages and for reading ahead
	Path          string `json:"path"`          // of that group
	Reason        string `json:"reason"`        // the same as a text
}

// reserveOf the limit is not given away: the group's page tables, other files' pages and what is read ahead are charged to it, too, and
// a group that is full to the brim reclaims at each page.
func reserveOf(limit int64) int64 { return max(limit/16, min(limit/4, 32<<20)) }

// Room gives how many bytes of files may be kept in memory without the groups' limits being reached. needs is what this process (and
// others of the group that start now) will still take for themselves. The result is never below 0.
func (h Host) Room(needs int64) Room {
	c := h.Cgroup()
	r := Room{Bytes: Unlimited, Limit: c.Tightest.Limit, Unreclaimable: c.Tightest.Unreclaimable, Needs: max(needs, 0), Path: c.Tightest.Path}
	if c.Tightest.Path == "" {
		r.Limit, r.Reason = Unlimited, "no control group limits this process's memory"
		return r
	}
	if m, err := h.Memory(); err == nil && r.Limit >= m.Total {
		r.Reason = fmt.Sprintf("the limit of %s, %s, is not below the host's memory of %s", r.Path, bytesize.Text(r.Limit), bytesize.Text(m.Total))
		return r
	}
	r.Reserve = reserveOf(r.Limit)
	r.Bytes = max(0, r.Limit-r.Unreclaimable-r.Needs-r.Reserve)
	r.Reason = fmt.Sprintf("%s: the limit of %s, %s, less %s used that is not page cache, %s that is still to be taken and %s in reserve",
		bytesize.Text(r.Bytes), r.Path, bytesize.Text(r.Limit), bytesize.Text(r.Unreclaimable), bytesize.Text(r.Needs), bytesize.Text(r.Reserve))
	return r
}
