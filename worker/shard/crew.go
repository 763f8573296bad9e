package shard

import (
	"runtime"

	"github.com/moepool/moepool/kernels/team"
)

// crew shares jobs between threads, as team.Team does.
type crew interface {
	Threads() int
	Run(n int, job func(i, thread int) error) error
}

// background is a crew beside the one that computes: its threads have the lowest priority, so that they take the CPU time that nobody else
// wants. On the computing team each layer would wait for whole experts to be packed.
//
// That is so from the first work on. Until then nothing is disturbed, and a request may wait for just these experts, those of a worker that was
// lost: on a busy host it would wait for ever.
type background struct {
	team    *team.Team
	busy    func() bool // there have been works since the crew began
	lowered []bool      // by thread, but for 0; the threads of the team stay the same
}

// newBackground starts a crew. Its threads are not pinned: they go where a CPU is idle, within those that the process may use.
func newBackground(threads int, busy func() bool) (*background, error) {
	t, err := team.New(threads, nil)
	if err != nil {
		return nil, err
	}
	return &background{team: t, busy: busy, lowered: make([]bool, threads)}, nil
}

func (b *background) Threads() int { return b.team.Threads() }

// Run is as team.Team.Run.
func (b *background) Run(n int, job func(i, thread int) error) error {
	ended := make(chan error, 1)
	go func() {
		// Thread 0 of a team is its caller's. Priorities can't be raised again, so that thread ends with this goroutine, which never
		// unlocks it; the team's own threads end with the team.
		runtime.LockOSThread()
		b.lowered[0] = false
		ended <- b.team.Run(n, func(i, thread int) error {
			if !b.lowered[thread] && b.busy() {
				b.lowered[thread] = true
				lowerPriority()
			}
			return job(i, thread)
		})
	}()
	return <-ended
}

func (b *background) close() { b.team.Close() }
