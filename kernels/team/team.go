// Package team owns a group of OS threads, pinned to CPUs, that share jobs through one counter. The worker computes expert
// parts with one, the coordinator its dense layers. It knows nothing of what a job computes.
package team

// Team is a fixed group of threads.
type Team struct{}

// New starts threads goroutines locked to OS threads, thread i pinned to cpus[i%len(cpus)] (not pinned if cpus is empty
// or pinning is not permitted: Pinned says so).
func New(threads int, cpus []int) (*Team, error) { panic("skeleton") }

// Threads is the number of threads.
func (t *Team) Threads() int { panic("skeleton") }

// Pinned says whether the threads are pinned.
func (t *Team) Pinned() bool { panic("skeleton") }

// Run calls job(i, thread) once for each i in [0, n) on the team's threads (the caller waits) and returns the first error.
// A panic inside a job, a memory fault included (debug.SetPanicOnFault), becomes a *FaultError or *PanicError. One Run at a
// time: concurrent callers queue. thread in [0, Threads()).
func (t *Team) Run(n int, job func(i, thread int) error) error { panic("skeleton") }

// Close ends the threads; Run afterwards is an error.
func (t *Team) Close() { panic("skeleton") }

// FaultError is a memory fault inside a job: a mapped file was truncated underneath.
type FaultError struct {
	Address uintptr
}

func (e *FaultError) Error() string { panic("skeleton") }

// PanicError is any other panic inside a job.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { panic("skeleton") }
