package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// counting gives tokens from q.Generated on, one an event, with their numbers as text; after tokens in all it ends.
func counting(q *GenerateRequest, emit func(*GenerateEvent) error, tokens int) error {
	for i := len(q.Generated); i < tokens; i++ {
		if err := emit(&GenerateEvent{Text: string(rune('a' + i)), Tokens: []int32{int32(i)}}); err != nil {
			return err
		}
	}
	return nil
}

// TestGenerateGoesOn: a coordinator that stops in the middle of an answer, and the next one that ends with an error of its own making, leave the
// answer to the one after: each token comes once.
func TestGenerateGoesOn(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	client := connect(t, s, false)
	begun := make(chan struct{})
	stopFirst := startGenerate(t, connect(t, s, true), func(ctx context.Context, q *GenerateRequest, emit func(*GenerateEvent) error) {
		_ = counting(q, emit, 3)
		close(begun)
		<-ctx.Done()
		_ = emit(&GenerateEvent{Done: true, FinishReason: "error", Error: context.Cause(ctx).Error(), CompletionTokens: 3})
	})
	var mu sync.Mutex
	var given [][]int32
	next := func() {
		<-begun
		stopFirst()
		startGenerate(t, connect(t, s, true), func(_ context.Context, q *GenerateRequest, emit func(*GenerateEvent) error) {
			mu.Lock()
			given = append(given, slices.Clone(q.Generated))
			mu.Unlock()
			if len(q.Generated) < 5 {
				_ = counting(q, emit, 5)
				_ = emit(&GenerateEvent{Done: true, FinishReason: "error", Error: "no longer the leader", Retry: true})
				return
			}
			_ = counting(q, emit, 8)
			_ = emit(&GenerateEvent{Done: true, FinishReason: "length", CompletionTokens: 9})
		})
	}
	started := make(chan struct{})
	go func() { defer close(started); next() }()
	text, tokens := "", []int32{}
	var lost []string
	var last *GenerateEvent
	resubmissions, err := Generate(testContext(t), client, "c", &GenerateRequest{Generated: []int32{0}}, GenerateOptions{
		Timeout: testDeadline, Wait: testDeadline, Lost: func(why error, n int) {
			if n != len(tokens) {
				t.Errorf("%d tokens said, %d given", n, len(tokens))
			}
			lost = append(lost, why.Error())
		}}, func(e *GenerateEvent) error {
		text, tokens, last = text+e.Text, append(tokens, e.Tokens...), e
		return nil
	})
	<-started
	if err != nil || resubmissions != 2 {
		t.Fatalf("%d resubmissions, %v", resubmissions, err)
	}
	if text != "bcdefgh" || !slices.Equal(tokens, []int32{1, 2, 3, 4, 5, 6, 7}) || !last.Done || last.FinishReason != "length" {
		t.Errorf("%q, %v, %+v", text, tokens, last)
	}
	mu.Lock()
	defer mu.Unlock()
	// The third time the coordinator that failed before is passed over at first: it may begin before it hears that. What was answered late comes
	// twice, too.
	given = slices.CompactFunc(given, slices.Equal)
	if len(given) != 2 || !slices.Equal(given[0], []int32{0, 1, 2}) || !slices.Equal(given[1], []int32{0, 1, 2, 3, 4}) {
		t.Errorf("given %v", given)
	}
	if len(lost) != 2 || lost[0] != ErrStopping.Error() || lost[1] != "no longer the leader" {
		t.Errorf("lost: %q", lost)
	}
}

// TestGenerateGivesUp: a request that costs one coordinator after the other is not sent for ever.
func TestGenerateGivesUp(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	for range 2 {
		startGenerate(t, connect(t, s, true), func(_ context.Context, _ *GenerateRequest, emit func(*GenerateEvent) error) {
			_ = emit(&GenerateEvent{Done: true, FinishReason: "error", Error: "crashed", Retry: true})
		})
	}
	_, err := Generate(testContext(t), connect(t, s, false), "c", &GenerateRequest{}, GenerateOptions{Wait: testDeadline}, func(*GenerateEvent) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "crashed") || !strings.Contains(err.Error(), "in a row") {
		t.Fatal(err)
	}
}

// TestGenerateDeadline: the coordinator ends an answer that takes too long and says so; without it the client does.
func TestGenerateDeadline(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	client := connect(t, s, false)
	nothing := func(*GenerateEvent) error { return nil }
	startGenerate(t, connect(t, s, true), func(ctx context.Context, _ *GenerateRequest, emit func(*GenerateEvent) error) {
		<-ctx.Done()
		_ = emit(&GenerateEvent{Done: true, FinishReason: "error", Error: context.Cause(ctx).Error() + " after 7 tokens"})
	})
	_, err := Generate(testContext(t), client, "c", &GenerateRequest{}, GenerateOptions{Timeout: time.Second, Wait: testDeadline}, nothing)
	var answer *GenerateError
	if !errors.As(err, &answer) || !strings.Contains(answer.Message, "deadline") || !strings.Contains(answer.Message, "after 7 tokens") {
		t.Fatal(err)
	}
	var late *DeadlineError
	if _, err := Generate(testContext(t), client, "nobody", &GenerateRequest{}, GenerateOptions{Timeout: time.Millisecond, Wait: testDeadline}, nothing); !errors.As(err, &late) {
		t.Fatal(err)
	}
	if _, err := Generate(testContext(t), client, "c", &GenerateRequest{}, GenerateOptions{Timeout: 2 * maxTimeout}, nothing); err == nil {
		t.Fatal("a timeout above the limit was taken")
	}
}

// testAttempt is an attempt whose clock and messages the test makes.
func testAttempt(t *testing.T, passOver string) (a *attempt, event func(control string, number uint64, e *GenerateEvent) *nats.Msg) {
	t.Helper()
	c := connect(t, startServer(t, ServerOptions{}), true)
	a = newAttempt(c, "c", passOver)
	a.patience = answerTicks
	return a, func(control string, number uint64, e *GenerateEvent) *nats.Msg {
		var w wire
		if err := encode(&w, kindEvent, &eventFrame{number, e}); err != nil {
			t.Fatal(err)
		}
		return &nats.Msg{Subject: a.inbox, Reply: control, Data: slices.Clone(w.buf)}
	}
}

func lostAfter(t *testing.T, a *attempt, ticks int, want string) *lostError {
	t.Helper()
	for range ticks {
		if err := a.tick(); err != nil {
			t.Fatalf("too early: %v", err)
		}
	}
	var lost *lostError
	if err := a.tick(); !errors.As(err, &lost) || !strings.Contains(err.Error(), want) {
		t.Fatalf("%v, want %q", err, want)
	}
	return lost
}

// TestAttemptSilence: how long an attempt waits for the first answer, for signs of life, and for another coordinator than the one that failed.
func TestAttemptSilence(t *testing.T) {
	t.Parallel()
	a, _ := testAttempt(t, "")
	if lost := lostAfter(t, a, answerTicks, "no coordinator has answered"); lost.taken {
		t.Error("taken by nobody")
	}
	a, event := testAttempt(t, "")
	if e, err := a.take(event(streamOf("s1"), 0, &GenerateEvent{Instance: "old"})); e != nil || err != nil {
		t.Fatal(e, err)
	}
	if lost := lostAfter(t, a, silentTicks, "silent"); !lost.taken || lost.instance != "old" {
		t.Errorf("%+v", lost)
	}
	a, event = testAttempt(t, "old")
	if e, err := a.take(event(streamOf("s1"), 0, &GenerateEvent{Instance: "old", Text: "x"})); e != nil || err != nil || a.bound {
		t.Fatal(e, err, a.bound)
	}
	if lost := lostAfter(t, a, 1, "no other"); lost.taken {
		t.Errorf("%+v", lost)
	}
}

// TestAttemptGone: NATS' notes that the coordinator takes no signs of life end an attempt, unless they come at once or the coordinator is
// back.
func TestAttemptGone(t *testing.T) {
	t.Parallel()
	a, event := testAttempt(t, "")
	note := &nats.Msg{Subject: a.inbox, Header: nats.Header{"Status": {"503"}}}
	number := uint64(0)
	take := func(m *nats.Msg) error {
		_, err := a.take(m)
		return err
	}
	alive := func() {
		t.Helper()
		if err := take(event(streamOf("s1"), number, &GenerateEvent{Instance: "old"})); err != nil {
			t.Fatal(err)
		}
		number++
	}
	tick := func() {
		t.Helper()
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
	}
	alive()
	for range 3 { // a second between them, and the coordinator is heard
		tick()
		if err := take(note); err != nil {
			t.Fatal(err)
		}
		alive()
	}
	tick()
	for range 3 { // they were kept while there was no connection
		if err := take(note); err != nil {
			t.Fatal(err)
		}
	}
	tick()
	var lost *lostError
	if err := take(note); !errors.As(err, &lost) || !lost.taken || lost.instance != "old" || !strings.Contains(err.Error(), "no longer connected") {
		t.Fatal(err)
	}
}

// TestGenerateEndedCoordinator: the answer of a coordinator whose connection has ended is continued by the next one; usually before it would
// count as silent (TestAttemptGone), but NATS' notes may take seconds on a machine with far more to do than CPUs.
func TestGenerateEndedCoordinator(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	first := connect(t, s, true)
	begun := make(chan struct{})
	startGenerate(t, first, func(ctx context.Context, _ *GenerateRequest, emit func(*GenerateEvent) error) {
		_ = emit(&GenerateEvent{Text: "a", Tokens: []int32{1}})
		close(begun)
		<-ctx.Done()
	})
	var why []string
	resubmissions, err := Generate(testContext(t), connect(t, s, false), "c", &GenerateRequest{}, GenerateOptions{Wait: testDeadline, Lost: func(cause error, tokens int) {
		why = append(why, fmt.Sprintf("%v after %d", cause, tokens))
	}}, func(e *GenerateEvent) error {
		if e.Text == "a" {
			<-begun
			first.Close()
			startGenerate(t, connect(t, s, true), func(_ context.Context, q *GenerateRequest, emit func(*GenerateEvent) error) {
				_ = emit(&GenerateEvent{Tokens: []int32{int32(len(q.Generated))}, Done: true, FinishReason: "stop"})
			})
		}
		return nil
	})
	if err != nil || resubmissions != 1 || len(why) != 1 ||
		why[0] != "the coordinator is no longer connected to NATS after 1" && why[0] != "the coordinator has been silent for 5s after 1" {
		t.Fatalf("%v, %d resubmissions: %q", err, resubmissions, why)
	}
}

// TestAttemptTakesOneAnswer: the first of several answers counts, events of the others don't; the coordinator that failed before is passed over.
func TestAttemptTakesOneAnswer(t *testing.T) {
	t.Parallel()
	a, event := testAttempt(t, "old")
	for _, m := range []*nats.Msg{
		event(streamOf("s-old"), 0, &GenerateEvent{Instance: "old"}), event(streamOf("s-old"), 1, &GenerateEvent{Text: "old"}),
		event(streamOf("s-new"), 0, &GenerateEvent{Instance: "new"}), event(streamOf("s-third"), 0, &GenerateEvent{Instance: "third", Text: "third"}),
	} {
		if e, err := a.take(m); e != nil || err != nil {
			t.Fatal(e, err)
		}
	}
	e, err := a.take(event(streamOf("s-new"), 1, &GenerateEvent{Text: "mine"}))
	if err != nil || e.Text != "mine" || a.instance != "new" || a.control != streamOf("s-new") {
		t.Fatal(e, err, a.instance)
	}
	if e, err := a.take(&nats.Msg{Header: nats.Header{"Status": []string{"503"}}}); e != nil || err != nil {
		t.Fatal("a late note that nobody listens:", e, err)
	}
	var lost *lostError
	if _, err := a.take(event(streamOf("s-new"), 3, &GenerateEvent{Text: "x"})); !errors.As(err, &lost) || !strings.Contains(err.Error(), "event 3") {
		t.Fatal(err)
	}
	if _, err := a.take(&nats.Msg{Reply: streamOf("s-new"), Data: []byte{0xc1}}); err == nil || errors.As(err, &lost) && lost.cause == nil {
		t.Fatal("a malformed event was taken")
	}
}

// TestAttemptNoise: what no coordinator says doesn't end an answer; if nothing else comes and it speaks another version, that is the error.
func TestAttemptNoise(t *testing.T) {
	t.Parallel()
	a, event := testAttempt(t, "")
	noise := [][]byte{{0xc1}, nil, {0x93, ProtocolVersion, byte(kindWork), 0x90}, {0x93, ProtocolVersion + 1, byte(kindEvent), 0x90}}
	for _, data := range noise {
		if e, err := a.take(&nats.Msg{Data: data}); e != nil || err != nil || a.bound {
			t.Fatalf("%x: %v, %v", data, e, err)
		}
	}
	for range answerTicks {
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
	}
	var lost *lostError
	if err := a.tick(); err == nil || errors.As(err, &lost) || !strings.Contains(err.Error(), "protocol version") {
		t.Fatalf("%v", err)
	}
	if e, err := a.take(event(streamOf("s1"), 0, &GenerateEvent{Text: "x"})); err != nil || e.Text != "x" {
		t.Fatal(e, err)
	}
}

// streamOf is a coordinator's subject for an answer.
func streamOf(name string) string { return generateStreams("c", name) + ".1" }
