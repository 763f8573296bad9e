package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	_ "github.com/moepool/moepool/internal/propertyseed"
	"pgregory.net/rapid"
)

// TestSums: sums of any length come back as they were, in memory without room to spare, and one that needs more than 4 bytes is noticed
// wherever it stands.
func TestSums(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7, 8, 9, 16, 31, 2048, 1<<16 + 13} {
		for _, atStart := range []bool{false, true} {
			sum, narrow, wide := guarded[int64](t, n, atStart), guarded[byte](t, 4*n, atStart), guarded[int64](t, n, atStart)
			for i := range sum {
				sum[i] = int64(int32(uint32(i) * 2654435761))
			}
			if n > 1 {
				sum[0], sum[n-1] = math.MaxInt32, math.MinInt32
			}
			if !NarrowSums(narrow, sum) {
				t.Fatalf("%d elements that fit don't", n)
			}
			for i, v := range sum {
				if int32(binary.LittleEndian.Uint32(narrow[4*i:])) != int32(v) {
					t.Fatalf("element %d of %d", i, n)
				}
			}
			WidenSums(wide, narrow)
			if !slices.Equal(wide, sum) {
				t.Fatalf("%d elements differ when they are wide again", n)
			}
			total := guarded[int64](t, n, atStart)
			for i := range total {
				total[i] = math.MaxInt64 - int64(i)
			}
			AddSums(total, sum)
			for i, v := range sum {
				if total[i] != math.MaxInt64-int64(i)+v {
					t.Fatalf("total %d of %d", i, n)
				}
			}
		}
	}
}

func TestSumsThatDontFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sum := rapid.SliceOfN(rapid.Map(rapid.Int32(), func(v int32) int64 { return int64(v) }), 1, 100).Draw(t, "sum")
		at := rapid.IntRange(0, len(sum)-1).Draw(t, "at")
		sum[at] = rapid.OneOf(rapid.Int64Range(math.MaxInt32+1, math.MaxInt64), rapid.Int64Range(math.MinInt64, math.MinInt32-1)).Draw(t, "large")
		if NarrowSums(make([]byte, 4*len(sum)), sum) {
			t.Fatalf("%d at %d of %d fits", sum[at], at, len(sum))
		}
	})
}

func BenchmarkSums(b *testing.B) {
	for _, rows := range []int{1, 512} {
		sum, narrow, total := make([]int64, rows*2048), make([]byte, 4*rows*2048), make([]int64, rows*2048)
		for _, c := range []struct {
			operation string
			call      func()
		}{
			{"narrow", func() { NarrowSums(narrow, sum) }},
			{"widen", func() { WidenSums(sum, narrow) }},
			{"add", func() { AddSums(total, sum) }},
		} {
			b.Run(fmt.Sprintf("operation=%s/rows=%d", c.operation, rows), func(b *testing.B) {
				b.SetBytes(int64(len(narrow)))
				for b.Loop() {
					c.call()
				}
			})
		}
	}
}
