package main

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/moepool/moepool/coordinator/membership"
	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/transport"
)

func exampleStatus() *serve.Status {
	at := time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	return &serve.Status{
		Cluster: "lab", Leader: "c1", Build: "v1", Started: at.Add(-90 * time.Second), Serves: true,
		Model:    serve.ModelStatus{Digest: "0123456789abcdef", Family: "qwen3_moe", Format: "q8", Parts: 1, Context: 8192, Budget: "off"},
		Requests: serve.RequestStatus{GenerateCounters: transport.GenerateCounters{Answered: 12, Failed: 1, Running: true, Waiting: 2}, TokensPerSecond: 14.25},
		Experts:  serve.ExpertStatus{Hits: 999, Misses: 1, BytesRead: 1 << 20},
		Workers:  map[string]serve.WorkerTraffic{"w0": {Requests: 4, Latency: 0.0012}},
		Members: membership.Status{
			Time: at, Term: 3, Ready: true, Parts: 80, PartBytes: 5 << 20,
			Active:  &membership.PlanStatus{Epoch: 4, Phase: "active", Reason: "joined: w1", Replicas: 6, Workers: []string{"w0", "w1"}},
			Pending: &membership.PlanStatus{Epoch: 5, Phase: "preparing", Reason: "lost: w1", Moved: 3 << 20, Workers: []string{"w0", "w2"}, Missing: []string{"w2"}},
			Workers: []membership.WorkerStatus{
				{ID: "w0", Host: "box-a", State: "ready", Usable: true, Parts: 40, Primaries: 38, ResidentParts: 20, Bytes: 2 << 20, Bandwidth: 38.1e9, Serves: []uint64{4, 5},
					Residency: transport.ResidencyReport{Limit: 1 << 20, Eviction: "lru", Resident: 1000 << 10, Hits: 30, Misses: 70, BytesRead: 3 << 20, Evictions: 9,
						Reclaimed: 2, Prefetched: 8, PrefetchUsed: 4, PrefetchOff: true, Locked: 1 << 10}},
				{ID: "w2", Host: "box-a", Node: 1, State: "loading", LoadedBytes: 30, TotalBytes: 120, Problem: "not ready: loading", Notes: []string{"no arena"}},
				{ID: "w3", Host: "box-a", Node: 1, State: "loading", LoadedBytes: 120, TotalBytes: 120, Residency: transport.ResidencyReport{WarmDone: 1, WarmTotal: 4}},
				{ID: "w1", Host: "box-b\x1b[2J", State: membership.StateLost, Parts: 40, Problem: "no beat for 3 s"},
			},
			Events: []membership.Event{
				{Time: at.Add(-time.Minute), Kind: membership.EventJoined, Worker: "w1", Text: "registered"},
				{Time: at.Add(-time.Second), Kind: membership.EventLost, Worker: "w1", Text: "no beat for 3 s"},
			},
		},
		Failures: []serve.Failure{{Time: at.Add(-30 * time.Second), Error: "the request's deadline\nhas passed"}},
	}
}

func TestStatusLines(t *testing.T) {
	t.Parallel()
	text := strings.Join((&statusView{status: exampleStatus()}).lines(), "\n")
	for _, want := range []string{
		"cluster lab: ready; leader c1, term 3, build v1, up 1m30s",
		"qwen3_moe 0123456789ab, experts q8 in 1 part, context 8192, expert budget off; 80 expert parts, 5.0 MiB",
		"placement: 4 on 2 workers, 6 replicas (joined: w1)",
		"placement: 5 is next, preparing: 1 of 2 workers, 3.0 MiB to load (lost: w1)",
		"requests: 1 runs, 2 wait, 12 answered, 1 failed; 14.2 tokens/s; experts 99.9 % in memory when needed, 1.0 MiB read",
		"38.1", "4,5", "50%", "1.2ms", "loading 25%", "w2: no arena",
		"w0: 1000 KiB of experts in memory, at most 1.0 MiB (lru); 30.0 % hits, 3.0 MiB read, 9 evictions, 2 taken by the kernel; 8 prefetched, 50 % used; prefetch is off; 1.0 KiB locked",
		"warming 25%", "the request's deadline has passed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the view lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("escape sequences of a host name, or styles without a terminal:\n%q", text)
	}
	lost, joined := strings.Index(text, "lost     worker w1"), strings.Index(text, "joined   worker w1")
	if failed := strings.Index(text, "request  the"); lost < 0 || !(lost < failed && failed < joined) {
		t.Errorf("the newest event is not the first:\n%s", text)
	}
	if n := strings.Count(text, "box-a"); n != 1 {
		t.Errorf("a host is named %d times", n)
	}
}

func TestStatusOfNothing(t *testing.T) {
	t.Parallel()
	s := &serve.Status{Cluster: "lab", Members: membership.Status{Waiting: "0 of 2 workers"}}
	text := strings.Join((&statusView{status: s}).lines(), "\n")
	for _, want := range []string{"not ready (0 of 2 workers)", "placement: none yet", "no workers: start them"} {
		if !strings.Contains(text, want) {
			t.Errorf("the view lacks %q:\n%s", want, text)
		}
	}
}

// TestStatusScreen: a frame fills the terminal exactly and never more, whatever its size; a coordinator that is gone is shown above what was known.
func TestStatusScreen(t *testing.T) {
	t.Parallel()
	v := &statusView{status: exampleStatus(), styled: true}
	for range 100 {
		v.remember(3)
	}
	if len(v.speeds) != speedsShown {
		t.Errorf("%d speeds are kept", len(v.speeds))
	}
	for _, size := range [][2]int{{200, 50}, {80, 24}, {20, 5}, {1, 1}} {
		frame := v.screen(size[0], size[1])
		lines := strings.Split(frame, "\r\n")
		if len(lines) != size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(clip(line, 1<<20)) - escapes(line); n > size[0] {
				t.Errorf("%v: a line of %d: %q", size, n, line)
			}
		}
	}
	v.problem = errors.New("no coordinator answers")
	frame := v.screen(100, 30)
	if at := strings.Index(frame, "no coordinator answers"); at < 0 || at > strings.Index(frame, "cluster lab") {
		t.Error("the problem is not the first line")
	}
	if (&statusView{problem: v.problem, styled: true}).screen(80, 24) == "" {
		t.Error("no frame before the first status")
	}
}

// escapes is how many characters of a line are escape sequences.
func escapes(line string) (n int) {
	inside := false
	for _, r := range line {
		if r == '\x1b' {
			inside = true
		}
		if inside {
			n++
			inside = r != 'm' && r != 'K' && r != 'H' && r != 'J'
		}
	}
	return n
}

func TestSparkline(t *testing.T) {
	t.Parallel()
	if got := sparkline([]float64{0, 1, 2, 4}); got != "▁▃▅█" {
		t.Errorf("%s", got)
	}
	if got := sparkline([]float64{0, 0}); got != "▁▁" {
		t.Errorf("%s", got)
	}
}

// Commands that follow the coordinator: what they wait for.
func TestDrainedAndRebalanced(t *testing.T) {
	t.Parallel()
	s := exampleStatus()
	if over, text, err := drained(s, "w0"); over || err != nil || !strings.Contains(text, "40 expert parts; placement 5 is preparing") {
		t.Errorf("%v %q %v", over, text, err)
	}
	for _, id := range []string{"w1", "gone"} {
		if over, _, err := drained(s, id); !over || err != nil {
			t.Errorf("%s has not left: %v", id, err)
		}
	}
	later := exampleStatus()
	if over, text, err := rebalanced(s, later); over || err != nil || !strings.Contains(text, "placement 5") {
		t.Errorf("%v %q %v", over, text, err)
	}
	later.Members.Active.Epoch = 5
	if over, _, err := rebalanced(s, later); !over || err != nil {
		t.Error("an active placement is not the end", err)
	}
	same := exampleStatus()
	same.Members.Pending = nil
	same.Members.Events = append(same.Members.Events, membership.Event{Time: s.Members.Time.Add(time.Second), Kind: membership.EventPlan, Text: "the placement stays as it is"})
	if over, text, err := rebalanced(s, same); !over || err != nil || !strings.Contains(text, "stays") {
		t.Errorf("%v %q %v", over, text, err)
	}
	broken := exampleStatus()
	broken.Members.Pending, broken.Members.Problem = nil, "no room"
	if _, _, err := rebalanced(s, broken); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Error(err)
	}
	other := exampleStatus()
	other.Members.Pending, other.Members.Ready = nil, true
	other.Members.Term = s.Members.Term + 1
	if over, _, err := rebalanced(s, other); over || err == nil || !strings.Contains(err.Error(), "ask again") {
		t.Errorf("another leader without a placement in progress: %v %v", over, err)
	}
}
