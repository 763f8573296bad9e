package main

import "sync"

// departures let the first signal ask a command to leave in good order; the next one ends it.
type departures struct {
	mu    sync.Mutex
	leave chan struct{}
}

// departure is the process's: signals are, too.
var departure departures

// prepare gives a channel that the next signal closes instead of ending the program; done must be called.
func (d *departures) prepare() (leave <-chan struct{}, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave = make(chan struct{})
	return d.leave, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leave = nil
	}
}

// take asks the command to leave and says whether there was one that had not been asked.
func (d *departures) take() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leave == nil {
		return false
	}
	close(d.leave)
	d.leave = nil
	return true
}
