package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// printJSON writes v as one indented object and a newline.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// warningPrefix begins the lines that are shown even to those who did not ask for more.
const warningPrefix = "warning: "

// logger writes one line a message to stderr; the same message is written once.
type logger struct {
	mu      sync.Mutex
	verbose bool // else only warnings
	said    map[string]bool
	above   io.Writer // where progress bars want other lines to go; nil is stderr
}

func newLogger(verbose bool) *logger { return &logger{verbose: verbose, said: map[string]bool{}} }

// Printf writes a line, unless the same line was written before or is of no interest.
func (l *logger) Printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !l.verbose && !strings.HasPrefix(line, warningPrefix) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said[line] {
		return
	}
	l.said[line] = true
	w := l.above
	if w == nil {
		w = os.Stderr
	}
	fmt.Fprintln(w, line)
}

func (l *logger) divert(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.above = w
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Write makes a logger the destination of child processes' lines.
func (l *logger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.above
	if w == nil {
		w = os.Stderr
	}
	return w.Write(p)
}

// quietly passes warnings on to a logger that shows everything.
func quietly(l *logger, format string, args ...any) {
	if strings.HasPrefix(format, warningPrefix) {
		l.Printf(format, args...)
	}
}
