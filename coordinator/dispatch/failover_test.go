package dispatch

import (
	"context"
	"errors"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator/router"
	"github.com/moepool/moepool/transport"
)

// newReplicas is a bench of workers where each expert part has two owners, and of a dispatcher that waits for missing experts.
func newReplicas(t *testing.T, lane string, parts, workers int, change func(*Options)) *bench {
	t.Helper()
	b := newLaneBench(t, lane, parts, workers, 0, func(o *Options) {
		o.OnMissing, o.Missing, o.HedgeFloor = WaitMissing, testDeadline, time.Hour
		if change != nil {
			change(o)
		}
	})
	b.members.change(func() { b.members.plan = testOwners(t, 1, parts, workers, 2) })
	return b
}

// compute computes a call and checks that its sums are those of a healthy worker; it gives what it cost.
func (b *bench) compute(t *testing.T, parts, rows int) (stats statsOf) {
	t.Helper()
	c := testCall(rows%2 == 0, 96, someChoices(rows))
	s, err := b.dispatcher.Compute(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	expectSums(t, c, parts)
	for _, err := range c.RowErr {
		if err != nil {
			t.Fatal(err)
		}
	}
	return statsOf{s.Retries, s.Hedges, s.HedgeWins, s.Waits}
}

type statsOf struct{ retries, hedges, wins, waits int }

// TestFailover: whatever happens to one worker of a call, others compute its share, and the sums are the same.
func TestFailover(t *testing.T) { overLanes(t, overFailover) }

func overFailover(t *testing.T, lane string) {
	cases := map[string]func(t *testing.T, b *bench){
		"dies": func(t *testing.T, b *bench) {
			b.responders[1].Close()
			if err := b.conns[1].Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
		},
		"refuses": func(_ *testing.T, b *bench) { b.workers[1].setEpoch(8) },
		"fails": func(_ *testing.T, b *bench) {
			b.workers[1].does(func(context.Context, *transport.Work, *transport.Result) error { panic("a broken worker") })
		},
		"answers something else": func(_ *testing.T, b *bench) {
			b.workers[1].does(func(_ context.Context, _ *transport.Work, r *transport.Result) error {
				r.Parts[len(r.Parts)-1]++
				return nil
			})
		},
		"is lost": func(_ *testing.T, b *bench) {
			b.workers[1].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
				b.members.setLost("w1", errors.New("no beat for 3 s"))
				<-ctx.Done()
				return nil
			})
		},
		"is silent": func(t *testing.T, b *bench) { b.impostor(t, 1, nil) },
	}
	if lane == transport.LaneNATS { // a connection that is closed here leaves a lane's socket open, which a process that ends does not
		cases["dies while it computes"] = func(_ *testing.T, b *bench) {
			b.workers[1].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
				go b.conns[1].Close()
				<-ctx.Done()
				return nil
			})
		}
	}
	for name, befall := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newReplicas(t, lane, 2, 3, func(o *Options) {
				if name == "is silent" {
					o.Silence = 3 * time.Second // on a crowded machine the others are silent for a while, too
				}
			})
			befall(t, b)
			if s := b.compute(t, 2, 7); s.retries == 0 || s.waits != 0 {
				t.Errorf("%+v", s)
			}
			for i := range 3 { // and no call after it is disturbed
				b.compute(t, 2, 1+i)
			}
			if n := b.dispatcher.Counters()["w1"]; n.Failures == 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestHedged: a worker that has stopped is not waited for when others have its experts, and what it answers at last is added nowhere.
func TestHedged(t *testing.T) { overLanes(t, overHedged) }

func overHedged(t *testing.T, lane string) {
	b := newReplicas(t, lane, 1, 3, nil)
	for range 2 * paceSamples { // nothing is late yet, so that shares are the same each time, and their paces become known
		b.compute(t, 1, 6)
	}
	b.dispatcher.o.HedgeFloor = 20 * time.Millisecond
	stopped, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.workers[2].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
		once.Do(func() { close(stopped) })
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	})
	s := b.compute(t, 1, 6)
	<-stopped
	if s.hedges == 0 || s.wins == 0 || s.retries != 0 {
		t.Fatalf("%+v", s)
	}
	if n := b.dispatcher.Counters()["w2"]; n.Late == 0 || n.Failures != 0 {
		t.Errorf("%+v", n)
	}
	b.compute(t, 1, 5)
	close(release)
	for i := range 20 {
		b.compute(t, 1, 1+i%7)
	}
}

// TestWaits: experts whose workers are all lost are waited for; membership is told, and the call goes on when they are back.
func TestWaits(t *testing.T) { overLanes(t, overWaits) }

func overWaits(t *testing.T, lane string) {
	b := newReplicas(t, lane, 1, 3, nil)
	b.members.change(func() { b.members.lost = map[string]error{"w1": errors.New("killed"), "w2": errors.New("killed")} })
	done := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(done)
		for { // as membership would, once it is told
			b.members.mu.Lock()
			n := len(b.members.uncovered)
			b.members.mu.Unlock()
			if n > 0 {
				close(told)
				b.members.change(func() { b.members.lost = nil })
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	s := b.compute(t, 1, 9)
	<-done
	<-told
	if s.waits != 1 || s.retries != 0 {
		t.Errorf("%+v", s)
	}
	for _, parts := range b.members.uncovered {
		if len(parts) == 0 || !slices.IsSorted(parts) {
			t.Errorf("told of %v", parts)
		}
		for _, part := range parts {
			if part%3 != 1 { // the others have w0 among their owners
				t.Errorf("part %d was said to be uncovered", part)
			}
		}
	}
}

// TestMissing: when nothing helps the error says how much of which layer is missing, why, and what the deadline was.
func TestMissing(t *testing.T) {
	t.Parallel()
	b := newReplicas(t, transport.LaneNATS, 2, 3, func(o *Options) { o.Missing = 300 * time.Millisecond })
	b.members.change(func() {
		b.members.lost = map[string]error{"w1": errors.New("killed"), "w2": errors.New("no beat for 3 s")}
	})
	_, err := b.dispatcher.Compute(testContext(t), testCall(true, 32, someChoices(12)))
	var missing *MissingError
	if !errors.As(err, &missing) || missing.Layer != testLayer || missing.Total != 2*testExperts || missing.Missing != 8 || missing.Parts != 2 {
		t.Fatalf("%v: %+v", err, missing)
	}
	want := "8 of 24 expert parts of layer 4 have no worker (worker w1: killed; worker w2: no beat for 3 s), and none came within 300ms (--missing-deadline)"
	if err.Error() != want {
		t.Fatalf("%q, want %q", err, want)
	}
}

// TestDropped: without the experts that nobody holds, a layer is what the budget's rule makes of it.
func TestDropped(t *testing.T) {
	t.Parallel()
	for _, normalize := range []bool{true, false} {
		var logged []string
		b := newReplicas(t, transport.LaneNATS, 2, 3, func(o *Options) {
			o.OnMissing, o.Normalize = DropMissing, normalize
			o.Log = func(format string, args ...any) { logged = append(logged, format) }
		})
		b.members.change(func() { b.members.lost = map[string]error{"w1": errors.New("killed"), "w2": errors.New("killed")} })
		// Part p of expert e is item 2e+p, whose owners are workers (2e+p)%3 and the next: item 1 mod 3 has none, so experts 0, 2, 3, 5, ... go.
		call := testCall(true, 32, []router.Choice{
			{Experts: []int32{0, 1, 4}, Weights: []float32{0.5, 0.25, 0.25}},
			{Experts: []int32{0, 2}, Weights: []float32{0.5, 0.5}},
			{Experts: []int32{1, 7}, Weights: []float32{0.75, 0.25}},
		})
		stats, err := b.dispatcher.Compute(testContext(t), call)
		if err != nil {
			t.Fatal(err)
		}
		first := []float32{0.25, 0.25}
		if normalize {
			first = []float32{0.5, 0.5}
		}
		want := testCall(true, 32, []router.Choice{{Experts: []int32{1, 4}, Weights: first}, {}, {Experts: []int32{1, 7}, Weights: []float32{0.75, 0.25}}})
		if sum := expected(want, 2); !slices.Equal(sum, call.Sum) {
			t.Errorf("normalize %v: other sums", normalize)
		}
		if stats.DroppedParts != 4 || stats.MissingMass != 1.5 || stats.EmptyRows != 1 || stats.Waits != 0 {
			t.Errorf("normalize %v: %+v", normalize, stats)
		}
		if len(logged) != 1 || !strings.Contains(logged[0], "left out") {
			t.Errorf("said: %q", logged)
		}
	}
}

// TestDroppedOnTheWay: what was added before an expert turned out to be missing is not in the sums, nor are its errors of rows.
func TestDroppedOnTheWay(t *testing.T) {
	t.Parallel()
	b := newReplicas(t, transport.LaneNATS, 1, 3, func(o *Options) { o.OnMissing = DropMissing })
	first := true
	b.workers[0].does(func(_ context.Context, w *transport.Work, r *transport.Result) error {
		if first {
			first, r.RowErrors = false, make([]uint8, w.Rows)
			r.RowErrors[0] = transport.RowOverflow
		}
		return nil
	})
	b.workers[1].does(func(ctx context.Context, _ *transport.Work, _ *transport.Result) error {
		for !b.members.hasComputed(testLayer) { // w0's answer is added
			time.Sleep(time.Millisecond)
		}
		b.members.change(func() { b.members.lost = map[string]error{"w1": errors.New("killed"), "w2": errors.New("killed")} })
		<-ctx.Done()
		return nil
	})
	call := testCall(true, 32, []router.Choice{{Experts: []int32{0, 1}, Weights: []float32{0.5, 0.5}}, {Experts: []int32{0}, Weights: []float32{1}}})
	stats, err := b.dispatcher.Compute(testContext(t), call)
	if err != nil {
		t.Fatal(err)
	}
	want := testCall(true, 32, []router.Choice{{Experts: []int32{0}, Weights: []float32{0.5}}, {Experts: []int32{0}, Weights: []float32{1}}})
	if sum := expected(want, 1); !slices.Equal(sum, call.Sum) || call.RowErr[0] != nil || stats.DroppedParts != 1 {
		t.Errorf("%+v %v", stats, call.RowErr)
	}
}

// TestChaos: workers that answer, refuse, fail, stall and answer late at random never change a sum.
func TestChaos(t *testing.T) { overLanes(t, overChaos) }

func overChaos(t *testing.T, lane string) {
	stall := func(ctx context.Context, random *rand.Rand) {
		select {
		case <-time.After(time.Duration(random.Intn(100)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	for name, befall := range map[string]func(ctx context.Context, random *rand.Rand, r *transport.Result) error{
		"failures": func(ctx context.Context, random *rand.Rand, r *transport.Result) error {
			switch random.Intn(60) {
			case 0:
				return errors.New("by chance")
			case 1:
				return &transport.RemoteError{Code: transport.CodeBusy, Message: "by chance"}
			case 2:
				r.Rows--
				r.Sum = r.Sum[r.Hidden:]
			case 3:
				stall(ctx, random)
			}
			return nil
		},
		"stalls": func(ctx context.Context, random *rand.Rand, _ *transport.Result) error {
			if random.Intn(60) == 0 {
				stall(ctx, random)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newReplicas(t, lane, 2, 4, func(o *Options) { o.HedgeFloor = time.Millisecond })
			for i, f := range b.workers {
				random := rand.New(rand.NewSource(int64(i))) // its works come one after the other
				f.does(func(ctx context.Context, _ *transport.Work, r *transport.Result) error { return befall(ctx, random, r) })
			}
			total := statsOf{}
			for i := range 200 {
				s := b.compute(t, 2, 2+i%9)
				total.retries, total.hedges, total.wins = total.retries+s.retries, total.hedges+s.hedges, total.wins+s.wins
			}
			t.Logf("%+v", total)
			if name == "failures" && total.retries == 0 {
				t.Errorf("nothing was sent again: %+v", total) // whether anything is hedged is a matter of time: TestHedged
			}
		})
	}
}
