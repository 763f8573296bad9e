package transport

import (
	"sync"
	"time"
)

// queue holds the Works that wait at a worker, in order of arrival, and the one that runs.
type queue struct {
	mu       sync.Mutex
	jobs     []*job // jobs[0] runs
	draining bool
	closed   bool
	idle     []chan struct{} // closed once nothing waits or runs
	free     []*job
}

// job is one Work with what is needed to answer it.
type job struct {
	frame   workFrame
	work    Work
	to      address // of the answer
	arrived time.Time
}

// spare gives a job whose memory may be reused.
func (q *queue) spare() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.free); n > 0 {
		j := q.free[n-1]
		q.free = q.free[:n-1]
		return j
	}
	j := &job{}
	j.frame.work = &j.work
	return j
}

// recycle takes a job back.
func (q *queue) recycle(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recycleLocked(j)
}

func (q *queue) recycleLocked(j *job) {
	if len(q.free) < 2 {
		q.free = append(q.free, j)
	}
}

// put adds a job, or says why not. first: nothing runs, so the caller must run it and all that follow.
func (q *queue) put(j *job) (first bool, refused *RemoteError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed || q.draining:
		return false, &RemoteError{Code: CodeNotReady, Message: "the worker is leaving"}
	case len(q.jobs) > maxQueuedWork:
		return false, &RemoteError{Code: CodeBusy, Message: "too many requests wait"}
	}
	q.jobs = append(q.jobs, j)
	return len(q.jobs) == 1, nil
}

// finish removes the job that ran and gives the next, nil if there is none.
func (q *queue) finish() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recycleLocked(q.jobs[0])
	copy(q.jobs, q.jobs[1:])
	q.jobs[len(q.jobs)-1] = nil
	q.jobs = q.jobs[:len(q.jobs)-1]
	if q.closed {
		q.jobs = q.jobs[:0]
	}
	q.settle()
	if len(q.jobs) == 0 {
		return nil
	}
	return q.jobs[0]
}

// settle tells those who wait for the end.
func (q *queue) settle() {
	if len(q.jobs) > 0 {
		return
	}
	for _, c := range q.idle {
		close(c)
	}
	q.idle = nil
}

// drain refuses further jobs; the channel is closed once nothing waits or runs.
func (q *queue) drain() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.draining = true
	c := make(chan struct{})
	q.idle = append(q.idle, c)
	q.settle()
	return c
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// length is how many jobs wait or run.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// each calls f for every job that waits or runs.
func (q *queue) each(f func(id workID, to address)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		f(workID{j.work.Request, j.work.Attempt}, j.to)
	}
}
