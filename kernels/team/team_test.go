package team_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moepool/moepool/internal/leaks"
	"github.com/moepool/moepool/kernels/team"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func newTeam(t testing.TB, threads int, cpus []int) *team.Team {
	t.Helper()
	tm, err := team.New(threads, cpus)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tm.Close)
	return tm
}

func TestRunEachJobOnce(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 2, 5} {
		tm := newTeam(t, threads, nil)
		for _, n := range []int{-1, 0, 1, 2, 3, 7, 1000} {
			counts := make([]atomic.Int32, max(n, 0))
			inUse := make([]atomic.Bool, threads)
			err := tm.Run(n, func(i, thread int) error {
				if thread < 0 || thread >= threads || thread >= n {
					return fmt.Errorf("job %d of %d on thread %d of %d", i, n, thread, threads)
				}
				if inUse[thread].Swap(true) {
					return fmt.Errorf("two jobs on thread %d at once", thread)
				}
				counts[i].Add(1)
				inUse[thread].Store(false)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range counts {
				if c := counts[i].Load(); c != 1 {
					t.Fatalf("threads=%d n=%d: job %d ran %d times", threads, n, i, c)
				}
			}
		}
	}
}

func TestJobsShareThreads(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, 2, nil)
	// Each of two jobs waits for the other: this ends only if two threads run them at the same time.
	var arrived [2]chan struct{}
	for i := range arrived {
		arrived[i] = make(chan struct{})
	}
	if err := tm.Run(2, func(i, _ int) error {
		close(arrived[i])
		<-arrived[1-i]
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestFirstErrorIsOfTheLowestJob(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, 3, nil)
	var ran atomic.Int32
	for range 50 {
		ran.Store(0)
		err := tm.Run(40, func(i, _ int) error {
			ran.Add(1)
			if i >= 7 {
				return fmt.Errorf("job %d", i)
			}
			return nil
		})
		if err == nil || err.Error() != "job 7" {
			t.Fatalf("got %v, want job 7", err)
		}
		if ran.Load() != 40 {
			t.Fatalf("%d jobs ran, want 40", ran.Load())
		}
	}
	if err := tm.Run(3, func(int, int) error { return nil }); err != nil {
		t.Fatalf("an error of an earlier run came back: %v", err)
	}
}

func TestPanicBecomesError(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, 2, nil)
	cause := errors.New("cause")
	var ran atomic.Int32
	err := tm.Run(10, func(i, _ int) error {
		ran.Add(1)
		if i == 3 {
			panic(cause)
		}
		return nil
	})
	var failed *team.PanicError
	if !errors.As(err, &failed) || !errors.Is(err, cause) || len(failed.Stack) == 0 {
		t.Fatalf("got %v", err)
	}
	if ran.Load() != 10 {
		t.Fatalf("%d jobs ran, want 10", ran.Load())
	}
	err = tm.Run(1, func(int, int) error { var p *int; *p = 1; return nil })
	if !errors.As(err, &failed) {
		t.Fatalf("nil pointer: got %v, want a *PanicError", err)
	}
}

// Nothing forbids testing's FailNow inside a job: wherever it runs, the team stays usable and Close ends.
func TestGoexitInAJob(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, 2, []int{0})
	for _, exits := range []int{0, 1} {
		var err error
		returned := false
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			var both sync.WaitGroup
			both.Add(2)
			err = tm.Run(2, func(_, thread int) error {
				both.Done()
				both.Wait() // each of the two threads has one job
				if thread == exits {
					runtime.Goexit()
				}
				return nil
			})
			returned = true
		}()
		<-ended
		var failed *team.PanicError
		if exits == 0 && returned {
			t.Fatal("the caller went on although its job ended it")
		}
		if exits == 1 && !errors.As(err, &failed) {
			t.Fatalf("got %v, want a *PanicError", err)
		}
	}
	if err := tm.Run(10, func(int, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestConcurrentRunsQueue(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, 2, nil)
	var inside, ran atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 20 {
				var mine atomic.Int32
				err := tm.Run(3, func(int, int) error {
					if inside.Add(1) > 2 {
						return errors.New("more jobs at once than threads")
					}
					mine.Add(1)
					ran.Add(1)
					inside.Add(-1)
					return nil
				})
				if err != nil || mine.Load() != 3 {
					t.Errorf("err %v, %d jobs of 3 ended when Run returned", err, mine.Load())
				}
			}
		})
	}
	callers.Wait()
	if ran.Load() != 8*20*3 {
		t.Fatalf("%d jobs ran", ran.Load())
	}
}

// Rest comes at any moment and never keeps a thread from a run: each pair of jobs needs two threads at a time.
func TestRest(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, 2, nil)
	tm.Rest()
	stop := make(chan struct{})
	var resting sync.WaitGroup
	resting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				tm.Rest()
				runtime.Gosched()
			}
		}
	})
	for range 300 {
		var both sync.WaitGroup
		both.Add(2)
		if err := tm.Run(2, func(int, int) error {
			both.Done()
			both.Wait()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		tm.Rest()
	}
	close(stop)
	resting.Wait()
}

func TestClose(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, 2, nil)
	tm.Close()
	tm.Close()
	if err := tm.Run(1, func(int, int) error { return nil }); !errors.Is(err, team.ErrClosed) {
		t.Fatalf("got %v, want ErrClosed", err)
	}
	if _, err := team.New(0, nil); err == nil {
		t.Fatal("a team of 0 threads was made")
	}
}

func TestNotPinnedWithoutSuchACPU(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, 1, []int{1 << 19})
	if tm.Pinned() {
		t.Fatal("pinned to a CPU that no machine has")
	}
	if err := tm.Run(1, func(int, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if newTeam(t, 1, nil).Pinned() {
		t.Fatal("pinned without CPUs")
	}
}

func TestRunDoesNotAllocate(t *testing.T) {
	tm := newTeam(t, 2, nil)
	job := func(int, int) error { return nil }
	if allocs := testing.AllocsPerRun(100, func() { _ = tm.Run(4, job) }); allocs != 0 {
		t.Fatalf("%v allocations per Run", allocs)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, n := range []int{1, 2, 16} {
			b.Run(fmt.Sprintf("threads=%d/jobs=%d", threads, n), func(b *testing.B) {
				tm := newTeam(b, threads, []int{0, 1})
				job := func(int, int) error { return nil }
				for b.Loop() {
					_ = tm.Run(n, job)
				}
			})
		}
	}
}

// BenchmarkRunWork is a run of two equal pieces of work that comes after a pause, in which the helper falls asleep, or not: the
// difference between the two is what the wake-up costs.
func BenchmarkRunWork(b *testing.B) {
	const steps = 200_000 // about 100 µs
	var sink atomic.Uint64
	work := func(i, _ int) error {
		x := uint64(i)
		for range steps {
			x = x*6364136223846793005 + 1442695040888963407
		}
		sink.Add(x)
		return nil
	}
	for _, threads := range []int{1, 2} {
		for _, pause := range []time.Duration{0, time.Millisecond} {
			b.Run(fmt.Sprintf("threads=%d/pause=%v", threads, pause), func(b *testing.B) {
				tm := newTeam(b, threads, []int{0, 1})
				b.StopTimer()
				for range b.N {
					time.Sleep(pause)
					b.StartTimer()
					_ = tm.Run(2, work)
					b.StopTimer()
				}
			})
		}
	}
}
