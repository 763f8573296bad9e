package testbed

import (
	"testing"
	"time"
)

// delays are each way, so that a round trip takes twice as long.
var delays = []time.Duration{0, 200 * time.Microsecond, time.Millisecond}

// The table of docs/multi-host.md: what a token costs on the network, and a layer's round trip.
func TestMeasure(t *testing.T) {
	b := start(t, []string{"h2", "h3"})
	b.generate(t) // warm
	const latency = "moepool_worker_latency_seconds"
	t.Logf("%8s %12s %12s %10s %10s %8s", "delay", "sent/token", "back/token", "p50 ms", "p99 ms", "tokens/s")
	for _, delay := range delays {
		b.slow(t, delay)
		before, err := Scrape(b.metricsAddress("h1"))
		if err != nil {
			t.Fatal(err)
		}
		received, sent := b.bytes(t)
		begin := time.Now()
		const rounds = 5
		for range rounds {
			b.generate(t)
		}
		took := time.Since(begin)
		receivedAfter, sentAfter := b.bytes(t)
		time.Sleep(took) // beats and the metrics' own traffic, in the same time
		receivedIdle, sentIdle := b.bytes(t)
		after, err := Scrape(b.metricsAddress("h1"))
		if err != nil {
			t.Fatal(err)
		}
		d := after.Distribution(latency).Since(before.Distribution(latency))
		if d.Count() < rounds*tokens*layers {
			t.Fatalf("%d observations of %s, want at least %d", d.Count(), latency, rounds*tokens*layers)
		}
		net := func(before, after, idle int64) float64 { return float64(after-before-(idle-after)) / (rounds * tokens) }
		t.Logf("%8v %12.0f %12.0f %10.3f %10.3f %8.1f", delay, net(sent, sentAfter, sentIdle), net(received, receivedAfter, receivedIdle),
			1e3*d.Quantile(0.5), 1e3*d.Quantile(0.99), rounds*tokens/took.Seconds())
		if p50 := d.Quantile(0.5); p50 < 2*delay.Seconds() {
			t.Errorf("a round trip of %v takes less than twice the delay %v: the delay is none", p50, delay)
		}
	}
}

func (b *bed) bytes(t *testing.T) (received, sent int64) {
	t.Helper()
	received, sent, err := b.Network.Bytes("h1")
	if err != nil {
		t.Fatal(err)
	}
	return received, sent
}
