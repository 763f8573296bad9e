package cluster

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLogger passes raft's warnings and errors on to log, one line each. Raft says the same again and again while a peer is away: a line that
// was said less than quietFor ago is left out.
func raftLogger(log func(format string, args ...any)) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{
		Name: "raft", Level: hclog.Warn, DisableTime: true, Output: &lineWriter{log: log, said: map[string]time.Time{}},
	})
}

const (
	quietFor   = 30 * time.Second
	mostQuiet  = 256 // lines that are remembered
	levelWidth = len("[WARN]  ")
)

// lineWriter gives each line that is written to log.
type lineWriter struct {
	log func(format string, args ...any)

	mu   sync.Mutex
	said map[string]time.Time
}

func (w *lineWriter) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		text := strings.TrimSpace(string(line))
		if text != "" && w.due(text) {
			w.log("%s", text)
		}
	}
	return len(p), nil
}

// due says whether a line was not said lately. What follows the first colon behind its name often holds numbers that differ.
func (w *lineWriter) due(text string) bool {
	key := text
	if len(text) > levelWidth {
		if name, rest, found := strings.Cut(text[levelWidth:], ":"); found {
			message, _, _ := strings.Cut(rest, ":")
			key = name + message
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if last, known := w.said[key]; known && now.Sub(last) < quietFor {
		return false
	}
	if len(w.said) >= mostQuiet {
		clear(w.said)
	}
	w.said[key] = now
	return true
}
