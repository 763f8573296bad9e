package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/transport"
)

// BenchmarkCompute is the dispatch of one layer to two workers of this process that do no work: what splitting, waiting and adding cost
// beside the messages themselves.
func BenchmarkCompute(b *testing.B) {
	for _, lane := range []string{transport.LaneNATS, transport.LaneLocal} {
		for _, rows := range []int{1, 64} {
			for _, copies := range []int{1, 2} {
				b.Run(fmt.Sprintf("lane=%s/rows=%d/copies=%d", lane, rows, copies), func(b *testing.B) { benchmarkCompute(b, lane, rows, copies) })
			}
		}
	}
}

func benchmarkCompute(b *testing.B, lane string, rows, copies int) {
	if lane == transport.LaneLocal && runtime.GOOS != "linux" {
		b.Skip("the local lane needs Linux")
	}
	bench := newLaneBench(b, lane, 1, 2, 0, nil)
	bench.members.change(func() { bench.members.plan = testOwners(b, 1, 1, 2, copies) })
	for _, f := range bench.workers {
		f.idle = &transport.Result{}
	}
	choices := make([]router.Choice, rows)
	for row := range choices {
		for i := range int32(8) {
			choices[row].Experts, choices[row].Weights = append(choices[row].Experts, i), append(choices[row].Weights, 0.125)
		}
	}
	c := testCall(true, 2048, choices)
	ctx := context.Background()
	for range 100 {
		mustCompute(b, bench.dispatcher, ctx, c)
	}
	b.ReportAllocs()
	for b.Loop() {
		mustCompute(b, bench.dispatcher, ctx, c)
	}
}

func mustCompute(b *testing.B, d *Dispatcher, ctx context.Context, c *engine.ExpertCall) {
	if _, err := d.Compute(ctx, c); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkJob is what the decisions of a call of one row to two workers cost, without messages.
func BenchmarkJob(b *testing.B) {
	for _, copies := range []int{1, 2} {
		b.Run(fmt.Sprintf("copies=%d", copies), func(b *testing.B) {
			j := newTestJob(1)
			v := testView(b, j.roster, testOwners(b, 1, 1, 2, copies), nil, nil)
			c := testCall(true, 2048, []router.Choice{{Experts: []int32{0, 1, 2, 3, 4, 5, 6, 7}, Weights: make([]float32, 8)}})
			r := &transport.Result{}
			for b.Loop() {
				if err := j.start(c, v); err != nil {
					b.Fatal(err)
				}
				for _, a := range j.attempts {
					j.next()
					j.answered(a, r)
				}
			}
		})
	}
}
