package bench

import (
	"context"
	"math"
	"slices"
	"time"
)

// Best is the shortest of some times, in milliseconds; there must be one.
func Best(times []time.Duration) float64 { return milliseconds(slices.Min(times)) }

// Median is the middle of some times, in milliseconds, or the mean of the two in the middle; there must be one.
func Median(times []time.Duration) float64 {
	sorted := slices.Sorted(slices.Values(times))
	n := len(sorted)
	return (milliseconds(sorted[(n-1)/2]) + milliseconds(sorted[n/2])) / 2
}

// Mean gives the mean of some values and their standard deviation, as of a sample (divided by n-1; 0 for one value).
func Mean(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	if len(values) < 2 {
		return mean, 0
	}
	sum := 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sum / float64(len(values)-1))
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// Effort says how often a call is measured.
type Effort struct {
	Calls int           // exactly that many; 0: as many as Time allows, from 5 to 2000
	Time  time.Duration // for all calls of a row, if Calls is 0
}

const (
	fewestCalls = 5
	mostCalls   = 2000
)

// enough says whether to stop after n calls.
func (e Effort) enough(n int, since time.Time) bool {
	if e.Calls > 0 {
		return n >= e.Calls
	}
	return n >= mostCalls || n >= fewestCalls && time.Since(since) >= e.Time
}

// repeat calls once, which gives the time that counts, as often as the effort says.
func (e Effort) repeat(ctx context.Context, once func() (time.Duration, error)) ([]time.Duration, error) {
	var times []time.Duration
	for start := time.Now(); !e.enough(len(times), start); {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		d, err := once()
		if err != nil {
			return nil, err
		}
		times = append(times, max(d, time.Nanosecond)) // a clock may stand still; nobody divides by 0
	}
	return times, nil
}
