//go:build linux

package main

import (
	"net"
	"sync"
	"testing"
)

// relay passes TCP connections on until it is cut; then it takes none and passes nothing on any more, as a network does that is partitioned.
type relay struct {
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	off   bool
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l}
	r.done.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil || !r.add(near, far) {
				near.Close()
				continue
			}
			r.pass(near, far)
			r.pass(far, near)
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.mu.Lock()
		for _, c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		r.done.Wait()
	})
	return r
}

func (r *relay) add(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, conns...)
	return !r.off
}

func (r *relay) pass(from, to net.Conn) {
	r.done.Go(func() {
		for buf := make([]byte, 64<<10); ; {
			n, err := from.Read(buf)
			r.mu.Lock()
			off := r.off
			r.mu.Unlock()
			if err != nil {
				to.Close()
				return
			}
			if off {
				continue
			}
			if _, err := to.Write(buf[:n]); err != nil {
				from.Close()
				return
			}
		}
	})
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = true
}
