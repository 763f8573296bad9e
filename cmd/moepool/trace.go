package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/moepool/moepool/coordinator/dispatch"
)

// traceFile writes the answers of workers as complete events of the Trace Event Format (Chrome's trace viewer, Perfetto): a row for each
// worker, in it a span for each request, and in that the time in the worker's queue and that of computing. These two are known by
// their lengths only; they are drawn in the middle, as if the way there took as long as the way back. A nil *traceFile writes nothing.
type traceFile struct {
	begin time.Time
	file  *os.File

	mu      sync.Mutex
	out     *bufio.Writer
	threads map[string]int // worker → row
	left    int            // events that may still be written
	err     error
}

// maxTraceEvents bounds a trace: some 200 MB.
const maxTraceEvents = 1 << 20

// traceEvent is one event; times in microseconds.
type traceEvent struct {
	Name      string         `json:"name"`
	Phase     string         `json:"ph"`
	Begin     float64        `json:"ts"`
	Duration  float64        `json:"dur,omitempty"`
	Process   int            `json:"pid"`
	Thread    int            `json:"tid"`
	Arguments map[string]any `json:"args,omitempty"`
}

// openTrace creates the file; without a path there is no trace.
func openTrace(path string) (*traceFile, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, usageError{fmt.Errorf("--trace: %w", err)}
	}
	t := &traceFile{file: file, out: bufio.NewWriter(file), begin: time.Now(), threads: map[string]int{}, left: maxTraceEvents}
	_, t.err = t.out.WriteString("[")
	return t, nil
}

// observer is coordinator.Options.ObserveWorker; also (may be nil) is told, too.
func (t *traceFile) observer(also func(dispatch.Answer)) func(dispatch.Answer) {
	if t == nil {
		return also
	}
	return func(a dispatch.Answer) {
		if also != nil {
			also(a)
		}
		t.answer(a)
	}
}

func (t *traceFile) answer(a dispatch.Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	thread, known := t.threads[a.Worker]
	if !known {
		thread = len(t.threads) + 1
		t.threads[a.Worker] = thread
		t.write(traceEvent{Name: "thread_name", Phase: "M", Process: 1, Thread: thread, Arguments: map[string]any{"name": "worker " + a.Worker}})
	}
	span := func(name string, from time.Duration, lasts time.Duration) {
		t.write(traceEvent{Name: name, Phase: "X", Begin: microseconds(a.Sent.Sub(t.begin) + from), Duration: microseconds(lasts), Process: 1, Thread: thread,
			Arguments: map[string]any{"layer": a.Layer, "rows": a.Rows}})
	}
	span("request", 0, a.Latency)
	way := max(0, a.Latency-a.Queue-a.Compute) / 2
	span("queue", way, a.Queue)
	span("compute", way+a.Queue, a.Compute)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// write writes one event; after an error, or too many, nothing.
func (t *traceFile) write(e traceEvent) {
	if t.err != nil || t.left == 0 {
		return
	}
	if t.left--; t.left < maxTraceEvents-1 {
		t.out.WriteString(",\n") // a failed write stays an error of the next one
	}
	text, err := json.Marshal(e)
	if err == nil {
		_, err = t.out.Write(text)
	}
	t.err = err
}

// close ends the file; what went wrong is said.
func (t *traceFile) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		_, t.err = t.out.WriteString("]\n")
	}
	if t.err == nil {
		t.err = t.out.Flush()
	}
	if err := t.file.Close(); t.err == nil {
		t.err = err
	}
	if t.err != nil {
		fmt.Fprintf(os.Stderr, "warning: --trace %s is not complete: %v\n", t.file.Name(), t.err)
	}
	if t.left == 0 {
		fmt.Fprintf(os.Stderr, "warning: --trace %s holds only the first %d events\n", t.file.Name(), maxTraceEvents)
	}
}
