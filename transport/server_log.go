package transport

import (
	"fmt"
	"sync"
)

// serverLog passes the embedded server's warnings and errors on and drops the rest. A fatal error is kept: the server would
// end the process, which is not its to end.
type serverLog struct {
	log func(format string, args ...any)

	mu    sync.Mutex
	first string
}

func (l *serverLog) say(format string, args ...any) {
	if l.log != nil {
		l.log("NATS server: "+format, args...)
	}
}

func (l *serverLog) Noticef(string, ...any)            {}
func (l *serverLog) Debugf(string, ...any)             {}
func (l *serverLog) Tracef(string, ...any)             {}
func (l *serverLog) Warnf(format string, args ...any)  { l.say(format, args...) }
func (l *serverLog) Errorf(format string, args ...any) { l.say(format, args...) }

func (l *serverLog) Fatalf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == "" {
		l.first = fmt.Sprintf(format, args...)
	}
}

func (l *serverLog) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}
