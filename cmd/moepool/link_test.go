//go:build linux

package main

import (
	"io"
	"net"
	"sync"
	"testing"
)

// link stands for the network between one host and NATS: it can be cut, which nobody is told of, and healed.
type link struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	mu     sync.Mutex
	healed *sync.Cond
	cut    bool
	ended  bool
	conns  map[net.Conn]bool
}

// newLink listens for connections to target.
func newLink(t testing.TB, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, target: target, conns: map[net.Conn]bool{}}
	l.healed = sync.NewCond(&l.mu)
	l.done.Go(l.accept)
	t.Cleanup(func() {
		listener.Close()
		l.mu.Lock()
		l.ended = true
		l.healed.Broadcast()
		for c := range l.conns {
			c.Close()
		}
		l.mu.Unlock()
		l.done.Wait()
	})
	return l
}

func (l *link) url() string { return "nats://" + l.listener.Addr().String() }

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil {
			near.Close()
			continue
		}
		if !l.keep(near, far) {
			return
		}
		l.done.Go(func() { l.carry(far, near) })
		l.done.Go(func() { l.carry(near, far) })
	}
}

func (l *link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.ended {
			c.Close()
			continue
		}
		l.conns[c] = true
	}
	return !l.ended
}

// carry copies until either side closes; while the link is cut, bytes wait as they do in a network without a route.
func (l *link) carry(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		for l.cut && !l.ended {
			l.healed.Wait()
		}
		l.mu.Unlock()
		if n > 0 {
			if _, werr := to.Write(buffer[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			break
		}
	}
	to.Close()
	_, _ = io.Copy(io.Discard, from) // until the other direction's end closes it
	from.Close()
	l.mu.Lock()
	delete(l.conns, to)
	delete(l.conns, from)
	l.mu.Unlock()
}

// setCut cuts or heals the link.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	l.healed.Broadcast()
}
