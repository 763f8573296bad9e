package hostinfo

// Reads are totals of a process since it began.
type Reads struct {
	Bytes       int64 `json:"bytes"`        // read from block devices for it, its own readahead included; page cache hits and tmpfs are not in it
	MajorFaults int64 `json:"major_faults"` // page faults that had to wait for a disk
	MinorFaults int64 `json:"minor_faults"`
}

// Since gives what came after an earlier count.
func (r Reads) Since(earlier Reads) Reads {
	return Reads{
		Bytes:       r.Bytes - earlier.Bytes,
		MajorFaults: r.MajorFaults - earlier.MajorFaults,
		MinorFaults: r.MinorFaults - earlier.MinorFaults,
	}
}
