package testbed

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// tokens is how many each generation has.
const tokens = 64

// layers is the demo model's.
const layers = 5

// pace is the delay each way of generations with faults.
const pace = 8 * time.Millisecond

type bed struct {
	*Cluster
	proxies map[string]*Proxy // by worker
	want    *Answer

	more chan struct{} // computed needs requests to workers, of another answer if need be
	over chan struct{} // closed when nothing will be asked any more
}

// start makes a cluster with a worker on each of the hosts, each behind a proxy of its own, and stops it at the end.
func start(t *testing.T, hosts []string, options ...func(*Options)) *bed {
	t.Helper()
	network, binary, natsServer, ok := Here()
	if !ok {
		if os.Getenv("CI") == "true" {
			t.Fatal("no testbed: .ci/testbed makes one")
		}
		t.Skip("SKIPPED: no testbed here; as root, .ci/testbed makes one and runs these tests")
	}
	b := &bed{proxies: map[string]*Proxy{}, more: make(chan struct{}), over: make(chan struct{})}
	o := Options{Network: network, Binary: binary, NATSServer: natsServer, Dir: t.TempDir()}
	for _, set := range options {
		set(&o)
	}
	for _, host := range hosts {
		p, err := StartProxy(host, network.Address("h1")+natsPort)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		id := "worker-" + host
		b.proxies[id] = p
		o.Seats = append(o.Seats, Seat{ID: id, Host: host, NATS: p.Address()})
	}
	var err error
	if b.want, err = Undisturbed(network, binary, tokens); err != nil {
		t.Fatal(err)
	}
	if len(b.want.Tokens) != tokens {
		t.Fatalf("the undisturbed run gives %d tokens, want %d", len(b.want.Tokens), tokens)
	}
	b.Cluster, err = StartCluster(o)
	t.Cleanup(b.Stop)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) slow(t *testing.T, delay time.Duration) {
	t.Helper()
	for _, p := range b.proxies {
		if err := p.Delay(delay); err != nil {
			t.Fatal(err)
		}
	}
}

// generate asks on h4 and compares tokens with those of the undisturbed run.
func (b *bed) generate(t *testing.T) *Answer {
	t.Helper()
	a, err := b.Ask("h4", tokens, patience)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.Logs())
	}
	if !slices.Equal(a.Tokens, b.want.Tokens) {
		t.Fatalf("tokens %v, want those of the undisturbed run %v\n%s", a.Tokens, b.want.Tokens, b.Logs())
	}
	return a
}

// during asks on h4 while faults happen, and compares the text with that of the undisturbed run. A token takes about 5 layers · 2 · pace, so that
// faults fall into the middle. Where the text ends before they have all happened (this process may get no CPU while the others go on), it is asked
// for again: each time it must be right.
func (b *bed) during(t *testing.T, faults func() error) {
	t.Helper()
	b.slow(t, pace)
	failed := make(chan error, 1)
	go func() { failed <- faults() }()
	for {
		a, err := b.Stream("h4", tokens, patience)
		if err == nil && a.Text != b.want.Text {
			err = fmt.Errorf("text %q, want that of the undisturbed run %q", a.Text, b.want.Text)
		}
		if err != nil {
			close(b.over)
			t.Fatalf("%v (faults: %v)\n%s", err, <-failed, b.Logs())
		}
		t.Logf("%d tokens in %.1f s, longest silence %.2f s", tokens, a.Took.Seconds(), a.Silence.Seconds())
		select {
		case err := <-failed:
			if err != nil {
				t.Fatalf("%v\n%s", err, b.Logs())
			}
			return
		case <-b.more:
		}
	}
}

// computed waits until the workers have computed n more requests: n = layers · workers is about one token. A coordinator that begins to lead
// counts from 0.
func (b *bed) computed(n int) error { return b.computedUnless(n, b.over) }

// errEnded says that nothing more is computed.
var errEnded = errors.New("the generation has ended")

// computedUnless is computed that gives errEnded when a channel is closed first.
func (b *bed) computedUnless(n int, ended <-chan struct{}) error {
	first, leader := 0.0, ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case <-ended:
			return errEnded
		case b.more <- struct{}{}: // nobody asks at the moment
		default:
		}
		host := b.Leader()
		if host == "" {
			continue
		}
		m, err := Scrape(b.metricsAddress(host))
		if err != nil {
			continue // it has just been killed
		}
		sum := m.Sum("moepool_worker_requests_total")
		if host != leader || sum < first {
			first, leader = sum, host
		}
		if sum >= first+float64(n) {
			return nil
		}
	}
	return fmt.Errorf("the workers did not compute %d requests within %v", n, patience)
}
