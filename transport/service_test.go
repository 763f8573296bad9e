package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// TestServiceIsFound: what `nats micro ls`, `info` and `stats` ask for.
func TestServiceIsFound(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	service, err := Serve(connect(t, s, true), ServiceOptions{Cluster: "c", Build: "v1.2.3", Instance: "i1", Metadata: map[string]string{"model_digest": "abc"},
		Admin: func(context.Context, string, []byte) (any, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Stop)
	if err := service.Generate(func(_ context.Context, _ *GenerateRequest, emit func(*GenerateEvent) error) {
		_ = emit(&GenerateEvent{Done: true, FinishReason: "stop"})
	}); err != nil {
		t.Fatal(err)
	}
	if err := service.Generate(nil); err == nil {
		t.Fatal("a second generate endpoint was taken")
	}
	client, watcher := connect(t, s, false), connect(t, s, false)
	requests := make(chan *nats.Msg, receiveCapacity)
	subscription, err := watcher.nats.ChanSubscribe(generateSubject("c"), requests)
	if err != nil {
		t.Fatal(err)
	}
	defer subscription.Unsubscribe() //nolint:errcheck
	flush(t, watcher)
	if err := generate(testContext(t), client, "c", &GenerateRequest{}, func(*GenerateEvent) error { return nil }); err != nil {
		t.Fatal(err)
	}
	flush(t, watcher)
	sent := len(requests) // 1, unless the first answer was late and it was sent again
	ask := func(verb micro.Verb, into any) {
		t.Helper()
		subject, err := micro.ControlSubject(verb, ServiceName, "")
		if err != nil {
			t.Fatal(err)
		}
		m, err := client.nats.RequestWithContext(testContext(t), subject, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(m.Data, into); err != nil {
			t.Fatal(err)
		}
	}
	var ping micro.Ping
	ask(micro.PingVerb, &ping)
	if ping.Name != "moepool" || ping.Version != "1.2.3" || ping.Metadata["cluster"] != "c" || ping.Metadata["instance"] != "i1" ||
		ping.Metadata["model_digest"] != "abc" || ping.Metadata["build"] != "v1.2.3" {
		t.Errorf("ping: %+v", ping)
	}
	var info micro.Info
	ask(micro.InfoVerb, &info)
	subjects := map[string]string{}
	for _, e := range info.Endpoints {
		subjects[e.Name] = e.Subject
	}
	if subjects["generate"] != generateSubject("c") || subjects["drain"] != adminSubject("c", "drain") || len(subjects) != 1+len(AdminVerbs) {
		t.Errorf("endpoints: %v", subjects)
	}
	var counters GenerateCounters
	// NATS counts a request a moment after it was handed over, and one that was sent again ends later than the answer to the other.
	waitFor(t, "all requests are counted", func() bool {
		var stats micro.Stats
		ask(micro.StatsVerb, &stats)
		at := slices.IndexFunc(stats.Endpoints, func(e *micro.EndpointStats) bool { return e.Name == "generate" })
		if at < 0 {
			t.Fatal("no stats of the generate endpoint")
		}
		if err := json.Unmarshal(stats.Endpoints[at].Data, &counters); err != nil {
			t.Fatal(err)
		}
		if n := stats.Endpoints[at].NumRequests; n > sent || counters.Answered == 0 || counters.Answered > uint64(sent) {
			t.Fatalf("%d requests, %+v of %d", n, counters, sent)
		}
		return stats.Endpoints[at].NumRequests == sent && counters.Answered == uint64(sent)
	})
	if counters.Failed >= uint64(sent) || counters.Malformed != 0 {
		t.Errorf("%+v of %d", counters, sent)
	}
}

func TestSemanticVersion(t *testing.T) {
	t.Parallel()
	for build, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3-rc.1+dirty": "1.2.3-rc.1+dirty", "v0.0.0-20260101120000-0123456789ab": "0.0.0-20260101120000-0123456789ab",
		"commit-0123456789ab": "0.0.0-build-commit-0123456789ab", "": "0.0.0-build-", "1.2": "0.0.0-build-1-2", "v1.2.3 (a)": "0.0.0-build-v1-2-3--a-",
	} {
		got := semanticVersion(build)
		if got != want || !semantic.MatchString(got) {
			t.Errorf("%q: %q, want %q", build, got, want)
		}
	}
}

// startAdmin serves admin commands.
func startAdmin(t *testing.T, s *Server, f AdminFunc) *Service {
	t.Helper()
	c := connect(t, s, true)
	service, err := Serve(c, ServiceOptions{Cluster: "c", Admin: f})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Stop)
	flush(t, c)
	return service
}

type testAnswer struct {
	Verb string `json:"verb"`
	Text string `json:"text"`
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{MaxPayload: 1 << 20})
	client := connect(t, s, false)
	var answer testAnswer
	if err := Admin(testContext(t), client, "c", AdminStatus, nil, &answer); !errors.Is(err, ErrNoCoordinator) {
		t.Fatalf("nobody serves: %v", err)
	}
	startAdmin(t, s, func(_ context.Context, verb string, request []byte) (any, error) {
		switch text := string(request); text {
		case `{"do":"fail"}`:
			return nil, errors.New("worker w9 is unknown")
		case `{"do":"panic"}`:
			panic("boom")
		case `{"do":"unknown"}`:
			return map[string]string{"verb": verb, "other": ""}, nil
		case `{"do":"endless"}`:
			return testAnswer{verb, strings.Repeat("x", 1<<20)}, nil
		case `{"do":"unwritable"}`:
			return func() {}, nil
		default:
			return testAnswer{verb, text}, nil
		}
	})
	for _, verb := range AdminVerbs {
		if err := Admin(testContext(t), client, "c", verb, testAnswer{"a", "b"}, &answer); err != nil || answer != (testAnswer{verb, `{"verb":"a","text":"b"}`}) {
			t.Errorf("%s: %+v, %v", verb, answer, err)
		}
	}
	if err := Admin(testContext(t), client, "c", AdminStatus, nil, &answer); err != nil || answer.Text != "" {
		t.Errorf("without a request: %+v, %v", answer, err)
	}
	for do, want := range map[string]string{
		"fail": "worker w9 is unknown", "panic": "boom", "unknown": "other", "endless": "can't be sent", "unwritable": "unsupported type",
	} {
		if err := Admin(testContext(t), client, "c", AdminDrain, map[string]string{"do": do}, &answer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", do, err, want)
		}
	}
	var refused *AdminError
	if err := Admin(testContext(t), client, "c", AdminDrain, strings.Repeat("x", maxAdminRequest), &answer); !errors.As(err, &refused) ||
		!strings.Contains(refused.Message, fmt.Sprint(maxAdminRequest)) {
		t.Errorf("a request over the limit: %v", err)
	}
	for _, wrong := range [][2]string{{"no.name", AdminStatus}, {"c", "delete"}} {
		if err := Admin(testContext(t), client, wrong[0], wrong[1], nil, &answer); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

// TestAdminStop: stop ends commands in progress and waits for them; a client that gives up has its own reason.
func TestAdminStop(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	running, ended := make(chan struct{}), make(chan struct{})
	service := startAdmin(t, s, func(ctx context.Context, _ string, _ []byte) (any, error) {
		close(running)
		<-ctx.Done()
		close(ended)
		return nil, context.Cause(ctx)
	})
	ctx, cancel := context.WithCancelCause(testContext(t))
	mine := errors.New("enough")
	failed := make(chan error)
	go func() { failed <- Admin(ctx, connect(t, s, false), "c", AdminStatus, nil, &testAnswer{}) }()
	<-running
	cancel(mine)
	if err := <-failed; !errors.Is(err, mine) {
		t.Error(err)
	}
	service.Stop()
	select {
	case <-ended:
	default:
		t.Error("stop did not wait for a command")
	}
	service.Stop()
}

// FuzzStrict: one JSON value of the right fields or an error; never a panic.
func FuzzStrict(f *testing.F) {
	for _, text := range []string{`{"verb":"a","text":"b"}`, `{"verb":1}`, `{} {}`, `{"x":1}`, ``, `[`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var a testAnswer
		if DecodeStrictly(data, &a) != nil {
			return
		}
		var loose map[string]any
		if err := json.Unmarshal(data, &loose); err != nil {
			t.Fatalf("%q was taken, but is not JSON: %v", data, err)
		}
		for key := range loose {
			if !strings.EqualFold(key, "verb") && !strings.EqualFold(key, "text") {
				t.Fatalf("%q was taken with field %q", data, key)
			}
		}
	})
}
