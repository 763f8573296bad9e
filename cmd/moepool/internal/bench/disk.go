package bench

import (
	"context"

	"github.com/moepool/moepool/arena"
)

// DiskBytes is the size of the file that a disk is measured with.
const DiskBytes = 256 << 20

// Disk measures sequential reads of 4 MiB from a folder's disk: what reading experts that are not in memory can reach. The row's
// kernels are the file system's name. The times are of one read, GBPS is over all.
func Disk(ctx context.Context, dir string, bytes int64) (Row, error) {
	reads, err := arena.MeasureDisk(ctx, dir, bytes)
	if err != nil {
		return Row{}, err
	}
	return Row{
		Test: "disk", Kernels: reads.FileSystem, Threads: 1,
		BestMS: known(Best(reads.Times)), MedianMS: known(Median(reads.Times)), GBPS: known(reads.MBPS() / 1e3),
	}, nil
}
