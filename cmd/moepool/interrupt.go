package main

import (
	"context"
	"sync"
)

// interrupts decides what Ctrl-C ends: the answer in progress of a chat, else the program.
type interrupts struct {
	mu   sync.Mutex
	turn context.CancelFunc
}

// interrupt is the process's: signals are, too.
var interrupt interrupts

// during lets Ctrl-C end what runs under the returned context; done must be called.
func (i *interrupts) during(ctx context.Context) (turn context.Context, done func()) {
	turn, cancel := context.WithCancel(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.turn = cancel
	return turn, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.turn = nil
		cancel()
	}
}

// take ends the turn in progress and says whether there was one.
func (i *interrupts) take() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.turn == nil {
		return false
	}
	i.turn()
	return true
}
