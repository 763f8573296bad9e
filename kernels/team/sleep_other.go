//go:build !linux

package team

import "sync/atomic"

// sleeper lets one goroutine sleep until another rouses it.
type sleeper struct {
	asleep atomic.Bool   // whoever turns it false ends the sleep
	wake   chan struct{} // capacity 1
}

func (s *sleeper) init() { s.wake = make(chan struct{}, 1) }

// sleep returns when rouse was called, or at once if the condition holds.
func (s *sleeper) sleep(condition func() bool) {
	s.asleep.Store(true)
	if condition() && s.asleep.CompareAndSwap(true, false) {
		return
	}
	<-s.wake
}

// rouse ends the sleep, if there is one. The condition is made true before.
func (s *sleeper) rouse() {
	if s.asleep.CompareAndSwap(true, false) {
		s.wake <- struct{}{}
	}
}
