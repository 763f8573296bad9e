package numa

import "errors"

// Pages counts pages of memory by where they are.
type Pages struct {
	Local   int64 `json:"local"`  // on the wanted node
	Remote  int64 `json:"remote"` // on another
	Absent  int64 `json:"absent"` // not in memory, or the kernel's page of zeros, or not in this process's page table
	Unknown int64 `json:"unknown"`
}

// Add adds the counts of q.
func (p *Pages) Add(q Pages) {
	p.Local += q.Local
	p.Remote += q.Remote
	p.Absent += q.Absent
	p.Unknown += q.Unknown
}

// LocalShare is the share of the pages in memory that are on the wanted node, in [0, 1]; 1 if none is in memory.
func (p Pages) LocalShare() float64 {
	present := p.Local + p.Remote + p.Unknown
	if present == 0 {
		return 1
	}
	return float64(p.Local) / float64(present)
}

// ErrDenied is the error of calls that the kernel, or a container's filter, does not permit to this process.
var ErrDenied = errors.New("not permitted to this process (in a container: CAP_SYS_NICE is needed)")

// Permissions says which calls this process may make, tried for real.
type Permissions struct {
	SetAffinity  bool `json:"sched_setaffinity"`
	SetMempolicy bool `json:"set_mempolicy"`
	Mbind        bool `json:"mbind"`
	MovePages    bool `json:"move_pages"`
}
