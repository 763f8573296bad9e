package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/moepool/moepool/internal/leaks"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func TestBestAndMedian(t *testing.T) {
	t.Parallel()
	ms := func(values ...int) (d []time.Duration) {
		for _, v := range values {
			d = append(d, time.Duration(v)*time.Millisecond)
		}
		return d
	}
	for _, c := range []struct {
		times        []time.Duration
		best, median float64
	}{
		{ms(7), 7, 7}, {ms(9, 1), 1, 5}, {ms(5, 1, 3), 1, 3}, {ms(8, 2, 4, 100), 2, 6},
	} {
		if best, median := Best(c.times), Median(c.times); best != c.best || median != c.median {
			t.Errorf("%v: best %v, median %v, want %v and %v", c.times, best, median, c.best, c.median)
		}
	}
	times := ms(3, 2, 1)
	Median(times)
	if times[0] != 3*time.Millisecond {
		t.Error("Median sorted its argument")
	}
}

func TestMean(t *testing.T) {
	t.Parallel()
	if mean, sd := Mean([]float64{2, 4, 4, 4, 5, 5, 7, 9}); mean != 5 || sd < 2.1380 || sd > 2.1381 { // sqrt(32/7)
		t.Errorf("mean %v, deviation %v", mean, sd)
	}
	if mean, sd := Mean([]float64{3}); mean != 3 || sd != 0 {
		t.Errorf("one value: mean %v, deviation %v", mean, sd)
	}
}

func TestEffort(t *testing.T) {
	t.Parallel()
	count := func(e Effort) int {
		times, err := e.repeat(t.Context(), func() (time.Duration, error) { return 0, nil })
		if err != nil {
			t.Fatal(err)
		}
		return len(times)
	}
	if n := count(Effort{Calls: 3, Time: time.Hour}); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
	if n := count(Effort{}); n != fewestCalls {
		t.Errorf("%d calls without time, want %d", n, fewestCalls)
	}
	if n := count(Effort{Time: time.Hour}); n != mostCalls {
		t.Errorf("%d calls in an hour, want %d", n, mostCalls)
	}

	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := (Effort{Time: time.Hour}).repeat(ctx, func() (time.Duration, error) { cancel(reason); return 1, nil }); !errors.Is(err, reason) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := (Effort{}).repeat(t.Context(), func() (time.Duration, error) { return 1, reason }); !errors.Is(err, reason) {
		t.Errorf("failed: %v", err)
	}
}

func TestThreadCounts(t *testing.T) {
	t.Parallel()
	if got := ThreadCounts(3); len(got) != 3 || got[0] != 1 || got[2] != 3 {
		t.Errorf("3 threads: %v", got)
	}
	got := ThreadCounts(96)
	if got[15] != 16 || got[16] != 32 || got[17] != 64 || got[18] != 96 || len(got) != 19 {
		t.Errorf("96 threads: %v", got)
	}
}

func TestRoofline(t *testing.T) {
	t.Parallel()
	r := Roofline{GBPS: 10, Int8: 1000, Float: 100}
	for _, c := range []struct {
		bytes, operations float64
		quantized         bool
		want              float64
	}{
		{1e9, 1e9, true, 0.1}, {1e9, 1e12, true, 1}, {1e9, 1e12, false, 10}, {0, 1e9, true, 1e-3},
	} {
		if got := r.shortest(c.bytes, c.operations, c.quantized); got != c.want {
			t.Errorf("%+v: %v s", c, got)
		}
	}
}

func TestMemoryCheck(t *testing.T) {
	t.Parallel()
	if err := (Memory{}).Check(1<<60, "x"); err != nil {
		t.Errorf("unknown memory refuses: %v", err)
	}
	m := Memory{Available: 100 << 20, Why: "MemAvailable"}
	if err := m.Check(100<<20, "x"); err != nil {
		t.Error(err)
	}
	if err := m.Check(101<<20, "weights"); err == nil || err.Error() != "weights: 101 MiB needed, available are 100 MiB (MemAvailable)" {
		t.Errorf("too much: %v", err)
	}
}
