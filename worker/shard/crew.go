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
type background struct {
	team    *team.Team
	lowered []bool // by thread; the threads of the team stay the same
}

// newBackground starts a crew. Its threads are not pinned: they go where a CPU is idle, within those that the process may use.
func newBackground(threads int) (*background, error) {
	t, err := team.New(threads, nil)
	if err != nil {
		return nil, err
	}
	return &background{team: t, lowered: make([]bool, threads)}, nil
}

func (b *background) Threads() int { return b.team.Threads() }

// Run is as team.Team.Run.
func (b *background) Run(n int, job func(i, thread int) error) error {
	ended := make(chan error, 1)
	go func() {
		// Thread 0 of a team is its caller's. Priorities can't be raised again, so that thread ends with this goroutine, which never
		// unlocks it; the team's own threads end with the team.
		runtime.LockOSThread()
		lowerPriority()
		ended <- b.team.Run(n, func(i, thread int) error {
			if thread > 0 && !b.lowered[thread] {
				b.lowered[thread] = true
				lowerPriority()
			}
			return job(i, thread)
		})
	}()
	return <-ended
}

func (b *background) close() { b.team.Close() }
