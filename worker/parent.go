package worker

import (
	"io"
	"os"
)

// watchParent gives a channel that is closed when the parent's end of the pipe closes; without a pipe it never is. stop closes
// the pipe and waits for the watching goroutine.
func watchParent(pipe *os.File) (gone <-chan struct{}, stop func()) {
	if pipe == nil {
		return nil, func() {}
	}
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		// The parent writes nothing; whatever comes is dropped. An error other than the end means that stop closed it.
		if _, err := io.Copy(io.Discard, pipe); err == nil {
			close(ended)
		}
	}()
	return ended, func() {
		pipe.Close()
		<-watched
	}
}
