package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

type serveFunc = GenerateFunc

// generate asks a coordinator that is there, however late it answers.
func generate(ctx context.Context, c *Conn, cluster string, q *GenerateRequest, event func(*GenerateEvent) error) error {
	_, err := Generate(ctx, c, cluster, q, GenerateOptions{Wait: testDeadline}, event)
	return err
}

func startGenerate(t *testing.T, c *Conn, serve serveFunc) (stop func()) {
	return serveGenerate(t, c, serve).Stop
}

func serveGenerate(t *testing.T, c *Conn, serve serveFunc) *Service {
	t.Helper()
	s, err := Serve(c, ServiceOptions{Cluster: "c", Instance: randomHex(8)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Generate(serve); err != nil {
		t.Fatal(err)
	}
	flush(t, c)
	return s
}

// TestGenerate: request and events arrive whole and in order, also in parts.
func TestGenerate(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{MaxPayload: 64 << 10})
	got := make(chan *GenerateRequest, 1)
	var events []*GenerateEvent
	for i := range 20 {
		events = append(events, &GenerateEvent{Text: strings.Repeat(string(rune('a'+i)), 10*i*i*i+1), Tokens: []int32{int32(i), -1}})
	}
	events = append(events, &GenerateEvent{Done: true, FinishReason: "stop", PromptTokens: 3, CompletionTokens: 40, PrefillSeconds: 0.5, DecodeSeconds: 1.5})
	startGenerate(t, connect(t, s, true), func(ctx context.Context, q *GenerateRequest, emit func(*GenerateEvent) error) {
		got <- q
		for _, e := range events {
			if err := emit(e); err != nil {
				t.Error(err)
			}
		}
		if err := emit(&GenerateEvent{Text: "late"}); err == nil {
			t.Error("an event after the last was sent")
		}
	})
	q := &GenerateRequest{Messages: []ChatMessage{{"user", strings.Repeat("Hä? ", 50<<10)}}, Prompt: "p", PromptTokens: []int32{1, 2}, MaxTokens: 5,
		Temperature: 0.5, TopK: 3, TopP: 0.9, MinP: 0.1, Seed: 1 << 60, Stop: []string{"x", ""}, IgnoreEOS: true,
		Generated: []int32{7, 8}, ExpertBudget: "count=3", Timeout: time.Hour}
	var seen []*GenerateEvent
	resubmissions, err := Generate(testContext(t), connect(t, s, false), "c", q, GenerateOptions{Timeout: q.Timeout, Wait: testDeadline}, func(e *GenerateEvent) error {
		seen = append(seen, e)
		return nil
	})
	if err != nil || resubmissions != 0 {
		t.Fatal(resubmissions, err)
	}
	sent := <-got
	if sent.Timeout > q.Timeout || sent.Timeout < q.Timeout-testDeadline { // what is left of it
		t.Errorf("timeout %s", sent.Timeout)
	}
	sent.Timeout = q.Timeout
	if d := cmp.Diff(q, sent, compareMessages); d != "" {
		t.Fatal(d)
	}
	if d := cmp.Diff(events, seen, compareMessages); d != "" {
		t.Fatal(d)
	}
}

func TestGenerateErrors(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	client := connect(t, s, false)
	ignore := func(*GenerateEvent) error { return nil }
	if _, err := Generate(testContext(t), client, "c", &GenerateRequest{}, GenerateOptions{}, ignore); !errors.Is(err, ErrNoCoordinator) {
		t.Fatal(err)
	}
	if err := generate(testContext(t), client, "no.name", &GenerateRequest{}, ignore); err == nil {
		t.Fatal("a cluster name with a dot was taken")
	}
	startGenerate(t, connect(t, s, true), func(ctx context.Context, q *GenerateRequest, emit func(*GenerateEvent) error) {
		switch q.Prompt {
		case "error":
			_ = emit(&GenerateEvent{Done: true, FinishReason: "error", Error: "worker w1 is gone"})
		case "panic":
			panic("boom")
		}
	})
	for prompt, want := range map[string]string{"error": "worker w1 is gone", "panic": "boom", "nothing": "gave no end"} {
		var last *GenerateEvent
		err := generate(testContext(t), client, "c", &GenerateRequest{Prompt: prompt}, func(e *GenerateEvent) error { last = e; return nil })
		var answer *GenerateError
		if !errors.As(err, &answer) || !strings.Contains(answer.Message, want) {
			t.Errorf("%s: %v", prompt, err)
		}
		if last == nil || !last.Done || last.FinishReason != "error" || !strings.Contains(last.Error, want) {
			t.Errorf("%s: last event %+v", prompt, last)
		}
	}
	// A hostile request costs an error event.
	for _, frame := range [][]byte{{0xdd, 0xff, 0xff, 0xff, 0xff}, nil, {0x93, ProtocolVersion, byte(kindWork), 0x90}, {0x93, 9, byte(kindGenerate), 0x90}} {
		m, err := client.nats.Request(generateSubject("c"), frame, testDeadline)
		if err != nil {
			t.Fatal(err)
		}
		var w wire
		f := eventFrame{event: &GenerateEvent{}}
		if k, err := open(&w, m.Data); err != nil || k != kindEvent || decode(&w, &f) != nil || !f.event.Done || f.event.Error == "" || f.event.Retry {
			t.Fatalf("%x: kind %d, %v, %+v", frame, k, err, f.event)
		}
	}
}

// waitsForEnd serves by waiting for the end of the request's context, whose cause it passes on.
func waitsForEnd(causes chan<- error, started chan<- struct{}) serveFunc {
	return func(ctx context.Context, q *GenerateRequest, emit func(*GenerateEvent) error) {
		_ = emit(&GenerateEvent{Text: "begins"})
		started <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		if err := emit(&GenerateEvent{Text: "x"}); !errors.Is(err, context.Cause(ctx)) {
			causes <- fmt.Errorf("emit after the end: %w", err)
		}
	}
}

// TestGenerateCancel: the client's ctx, and an error of its event function, end the request at the coordinator.
func TestGenerateCancel(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	causes, started := make(chan error, 4), make(chan struct{}, 4)
	startGenerate(t, connect(t, s, true), waitsForEnd(causes, started))
	client := connect(t, s, false)
	ctx, cancel := context.WithCancelCause(testContext(t))
	mine := errors.New("enough")
	err := generate(ctx, client, "c", &GenerateRequest{}, func(*GenerateEvent) error { cancel(mine); return nil })
	if !errors.Is(err, mine) {
		t.Fatal(err)
	}
	if cause := <-causes; !errors.Is(cause, ErrClientCanceled) {
		t.Fatal(cause)
	}
	broken := errors.New("pipe closed")
	if err := generate(testContext(t), client, "c", &GenerateRequest{}, func(*GenerateEvent) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if cause := <-causes; !errors.Is(cause, ErrClientCanceled) {
		t.Fatal(cause)
	}
}

// TestGenerateClientGone: a client whose inbox disappears is noticed by NATS' note at the next sign of life.
func TestGenerateClientGone(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	causes, started := make(chan error, 4), make(chan struct{}, 4)
	startGenerate(t, connect(t, s, true), waitsForEnd(causes, started))
	client := connect(t, s, false)
	inbox := nats.NewInbox()
	subscription, err := client.nats.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := newSender(client).send(generateSubject("c"), inbox, kindGenerate, &GenerateRequest{}); err != nil {
		t.Fatal(err)
	}
	<-started
	if err := subscription.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if cause := <-causes; !errors.Is(cause, ErrClientGone) {
		t.Fatal(cause)
	}
}

// TestGenerateSilence: the tables of silence on both sides, without waiting for real: a client that is subscribed but says nothing
// is given up after silentTicks.
func TestGenerateSilence(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	g := &generateServer{conn: connect(t, s, true), sender: newSender(connect(t, s, true)), streams: map[string]*stream{}}
	st := &stream{client: "nobody", control: "c.1"}
	st.ctx, st.cancel = context.WithCancelCause(context.Background())
	g.streams[st.control] = st
	for range silentTicks {
		g.tick()
		if st.ctx.Err() != nil {
			t.Fatal("too early")
		}
	}
	g.tick()
	if !errors.Is(context.Cause(st.ctx), ErrClientGone) {
		t.Fatal(context.Cause(st.ctx))
	}
}

// TestGenerateAlive: both sides say that they live while nothing else is said.
func TestGenerateAlive(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	release := make(chan struct{})
	startGenerate(t, connect(t, s, true), func(ctx context.Context, q *GenerateRequest, emit func(*GenerateEvent) error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		_ = emit(&GenerateEvent{Done: true, FinishReason: "stop"})
	})
	client, watcher := connect(t, s, false), connect(t, s, false)
	signs := make(chan *nats.Msg, 1000)
	subscription, err := watcher.nats.ChanSubscribe("moe.c.>", signs)
	if err != nil {
		t.Fatal(err)
	}
	defer subscription.Unsubscribe() //nolint:errcheck
	flush(t, watcher)
	var done sync.WaitGroup
	done.Go(func() {
		if err := generate(testContext(t), client, "c", &GenerateRequest{}, func(*GenerateEvent) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	seen := map[kind]int{}
	for seen[kindAlive] < 1 || seen[kindEvent] < 2 {
		k, err := open(&wire{}, (<-signs).Data)
		if err != nil {
			t.Fatal(err)
		}
		seen[k]++
	}
	close(release)
	done.Wait()
}

// TestGenerateQueue: requests are served one at a time in order of arrival; one beyond the limit is told so at once; stop ends the
// running and the waiting ones.
func TestGenerateQueue(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	causes, started := make(chan error, 4), make(chan struct{}, 4)
	service := serveGenerate(t, connect(t, s, true), waitsForEnd(causes, started))
	client := connect(t, s, false)
	answers, lost := make(chan error, maxQueuedGenerate+2), make(chan error, maxQueuedGenerate+2)
	errEnough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(testContext(t))
	var clients sync.WaitGroup
	ask := func() {
		clients.Go(func() {
			_, err := Generate(ctx, client, "c", &GenerateRequest{}, GenerateOptions{Wait: testDeadline, Lost: func(why error, _ int) { lost <- why }},
				func(*GenerateEvent) error { return nil })
			answers <- err
		})
	}
	ask()
	<-started
	for i := range maxQueuedGenerate { // one after the other: of so many at once the last would be answered late
		ask()
		waitFor(t, "the next one waits", func() bool { return service.Counters().Waiting > i })
	}
	ask()
	var full *GenerateError
	if err := <-answers; !errors.As(err, &full) || !strings.Contains(full.Message, fmt.Sprint(maxQueuedGenerate)) {
		t.Fatal(err)
	}
	service.Stop()
	service.Stop()
	if cause := <-causes; !errors.Is(cause, ErrStopping) {
		t.Fatal(cause)
	}
	for range maxQueuedGenerate + 1 {
		select {
		case why := <-lost:
			if why.Error() != ErrStopping.Error() {
				t.Errorf("an answer was lost: %v", why)
			}
		case err := <-answers: // of one that came after a request that was sent twice, since its answer was late
			if !errors.As(err, &full) {
				t.Error(err)
			}
		}
	}
	cancel(errEnough)
	clients.Wait()
	close(answers)
	for err := range answers {
		if !errors.Is(err, errEnough) {
			t.Error(err)
		}
	}
	if len(started) != 0 {
		t.Fatal("a waiting request was begun after the stop")
	}
}
