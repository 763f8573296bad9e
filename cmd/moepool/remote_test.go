//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/transport"
)

// externalCluster is a NATS server of the test, as users run one, with workers; coordinators come and go.
type externalCluster struct {
	t      testing.TB
	server *transport.Server
	shared []string     // flags of every command
	model  []string     // of coordinators and workers
	events atomic.Int64 // of answers
}

func newExternalCluster(t testing.TB, workers int, model ...string) *externalCluster {
	t.Helper()
	server := newServer(t)
	c := &externalCluster{t: t, server: server, model: model,
		shared: []string{"--nats", server.URL(), "--token-file", writeFile(t, server.Token())}}
	observer, err := nats.Connect(server.URL(), nats.Token(server.Token()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(observer.Close)
	if _, err := observer.Subscribe("moe.default.inbox.>", func(*nats.Msg) { c.events.Add(1) }); err != nil {
		t.Fatal(err)
	}
	for i := range workers {
		c.worker(fmt.Sprintf("w%d", i))
	}
	return c
}

func (c *externalCluster) args(command string, more ...string) []string {
	return append(append([]string{command}, c.shared...), more...)
}

func (c *externalCluster) worker(id string) *process {
	c.t.Helper()
	return startProcess(c.t, c.args("worker", append([]string{"--id", id, "--node", "0", "--arena-dir", "none"}, c.model...)...)...)
}

// coordinator starts one and waits until it serves.
func (c *externalCluster) coordinator(more ...string) *process {
	c.t.Helper()
	p := startProcess(c.t, c.args("coordinator", append(append([]string{"--json", "--http", "none"}, c.model...), more...)...)...)
	p.awaitOutput(c.t, &p.stdout, "}")
	return p
}

// run is the client.
func (c *externalCluster) run(more ...string) *process {
	c.t.Helper()
	return startProcess(c.t, c.args("run", more...)...)
}

// answerLimit is how long an answer of some thousand tokens may take on a machine with far more to do than CPUs.
const answerLimit = 15 * time.Minute

// json waits for a client with --json.
func (p *process) json(t testing.TB) (r runReport) {
	t.Helper()
	if code := p.await(t, answerLimit); code != 0 {
		t.Fatalf("%v: exit code %d; stderr:\n%s", p.Args[1:], code, p.stderr.String())
	}
	if err := transport.DecodeStrictly([]byte(p.stdout.String()), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Killed in the middle of an answer, a coordinator is replaced by a new one with the same workers, and the client's text is that of the
// undisturbed run: greedy and seeded, as text and as JSON.
func TestAnswerOutlivesCoordinator(t *testing.T) {
	t.Parallel()
	model := longModel(t)
	for name, sampling := range map[string][]string{"greedy": nil, "seeded": {"--temperature", "0.8", "--seed", "11"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newExternalCluster(t, 1, "--model", model)
			first := c.coordinator()
			ask := append([]string{"--raw", "--ignore-eos", "--max-tokens", tokensOf(3000), demoPrompt}, sampling...)
			want := c.run(append([]string{"--json"}, ask...)...).json(t)
			if fmt.Sprint(want.Usage.CompletionTokens) != tokensOf(3000) || want.Resubmissions != 0 {
				t.Fatalf("undisturbed: %+v, %d resubmissions", want.Usage, want.Resubmissions)
			}
			client := c.run(append([]string{"--quiet"}, ask...)...)
			waitFor(t, waitLimit, func() (bool, string) {
				return len(client.stdout.String()) > 50, "the beginning of the text; stderr: " + client.stderr.String()
			})
			first.Process.Kill()
			<-first.ended
			if len(client.stdout.String()) >= len(want.Text) {
				t.Fatal("the answer had ended before the kill")
			}
			client.awaitOutput(t, &client.stderr, "continued")
			c.coordinator()
			if code := client.await(t, answerLimit); code != 0 {
				t.Fatalf("exit code %d: %s", code, client.stderr.String())
			}
			if got := client.stdout.String(); got != want.Text+"\n" {
				t.Errorf("text after the failover\n%q, undisturbed\n%q", got, want.Text)
			}
			if n := strings.Count(client.stderr.String(), "continued"); n != 1 {
				t.Errorf("the resubmission was told %d times: %s", n, client.stderr.String())
			}
		})
	}
}

// A coordinator that hangs is noticed by its silence; one that is told to end passes its answers on. JSON counts both.
func TestAnswerOutlivesHangingCoordinator(t *testing.T) {
	t.Parallel()
	c := newExternalCluster(t, 1, "--model", longModel(t))
	first := c.coordinator()
	ask := []string{"--json", "--raw", "--ignore-eos", "--max-tokens", tokensOf(6000), "--timeout", answerLimit.String(), demoPrompt}
	want := c.run(ask...).json(t)
	client := c.run(ask...)
	c.waitForEvents(300)
	signalProcess(t, first.Process.Pid, syscall.SIGSTOP)
	client.awaitOutput(t, &client.stderr, "silent")
	first.Process.Kill()
	<-first.ended
	second := c.coordinator()
	c.waitForEvents(300)
	signalProcess(t, second.Process.Pid, syscall.SIGTERM)
	second.await(t, waitLimit)
	c.coordinator()
	got := client.json(t)
	if got.Text != want.Text || !slices.Equal(got.Tokens, want.Tokens) {
		t.Errorf("%d tokens %q, undisturbed %d tokens %q", len(got.Tokens), got.Text, len(want.Tokens), want.Text)
	}
	if got.Usage != want.Usage || got.FinishReason != want.FinishReason || got.Resubmissions != 2 {
		t.Errorf("usage %+v, %s, %d resubmissions; undisturbed %+v, %s", got.Usage, got.FinishReason, got.Resubmissions, want.Usage, want.FinishReason)
	}
	if got.Error != "" {
		t.Errorf("error %q in an answer that ended well", got.Error)
	}
}

// waitForEvents waits until that many more events of answers have come over NATS.
func (c *externalCluster) waitForEvents(n int64) {
	c.t.Helper()
	want := c.events.Load() + n
	waitFor(c.t, waitLimit, func() (bool, string) { return c.events.Load() >= want, "events of an answer" })
}

// A request's own budget holds for that request only; the coordinator refuses what it can't read.
func TestBudgetOverride(t *testing.T) {
	t.Parallel()
	c := newExternalCluster(t, 1)
	c.coordinator("--budget-residency", "none")
	ask := []string{"--json", "--max-tokens", "8", demoPrompt}
	policies := map[string]bool{} // policy → experts were dropped
	for _, more := range [][]string{{}, {"--expert-budget", "3"}, {}, {"--expert-budget", "off"}} {
		r := c.run(append(more, ask...)...).json(t)
		if r.Budget == nil {
			t.Fatal("no budget in the report")
		}
		if r.Experts == nil || r.Experts.OnMissing != "wait" || r.Experts.Hits == 0 || r.Experts.DroppedParts != 0 {
			t.Errorf("experts %+v", r.Experts)
		}
		dropped := r.Budget.DroppedExperts > 0
		if before, is := policies[r.Budget.Policy]; is && before != dropped {
			t.Errorf("budget %s dropped experts once and once not", r.Budget.Policy)
		}
		policies[r.Budget.Policy] = dropped
	}
	if len(policies) != 2 || policies["off"] || !policies["count=3"] {
		t.Errorf("budgets that dropped experts: %v", policies)
	}
	refused := c.run("--expert-budget", "most", demoPrompt)
	if code := refused.await(t, waitLimit); code != exitUsage || !strings.Contains(refused.stderr.String(), `"most"`) {
		t.Errorf("exit code %d: %s", code, refused.stderr.String())
	}
}

// A deadline ends the answer at the coordinator, which says how far it was.
func TestDeadline(t *testing.T) {
	t.Parallel()
	c := newExternalCluster(t, 1, "--model", longModel(t))
	c.coordinator()
	var r runReport
	// When the first token comes, and when the last one would, depends on the machine.
	for limit := 400 * time.Millisecond; len(r.Tokens) == 0 && limit < waitLimit; limit *= 2 {
		p := c.run("--json", "--raw", "--ignore-eos", "--max-tokens", "8000", "--timeout", limit.String(), demoPrompt)
		if code := p.await(t, limit+waitLimit); code != exitFailure {
			t.Fatalf("with a deadline of %v: exit code %d: %s", limit, code, p.stderr.String())
		}
		r = runReport{}
		mustUnmarshal(t, p.stdout.String(), &r)
		if !strings.Contains(r.Error, "deadline") {
			t.Fatalf("with a deadline of %v: %q", limit, r.Error)
		}
	}
	if len(r.Tokens) == 0 || r.FinishReason != "error" || !strings.Contains(r.Error, fmt.Sprintf("after %d tokens", len(r.Tokens))) {
		t.Errorf("%d tokens, %s, %q", len(r.Tokens), r.FinishReason, r.Error)
	}
	nobody := c.run("--cluster", "other", demoPrompt)
	if code := nobody.await(t, waitLimit); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"cluster other", c.server.URL(), "--cluster", "moepool coordinator"} {
		if !strings.Contains(nobody.stderr.String(), want) {
			t.Errorf("the error %q does not name %s", nobody.stderr.String(), want)
		}
	}
}

// The commands that look at a cluster and change it: what they print, and that answers stay the same.
func TestAdminCommands(t *testing.T) {
	t.Parallel()
	c := newExternalCluster(t, 2)
	admin := func(args ...string) string { return moepool(t, append(args, c.shared...)...) }
	c.coordinator("--workers", "2")
	status := func() (s serve.Status) {
		t.Helper()
		if err := transport.DecodeStrictly([]byte(admin("status", "--json")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	answer := func() string { return c.run("--json", "--max-tokens", "12", demoPrompt).json(t).Text }
	want := answer()
	s := status()
	if !s.Serves || !s.Members.Ready || len(s.Members.Workers) != 2 || s.Requests.Answered != 1 || s.Requests.Generated != 12 || s.Experts.Hits == 0 ||
		s.Workers["w0"].Requests == 0 || s.Model.Family != "qwen3_moe" {
		t.Errorf("status %+v", s)
	}
	if text := admin("status"); !strings.Contains(text, "cluster default: ready") || !strings.Contains(text, "w1") {
		t.Errorf("status:\n%s", text)
	}
	var p serve.Placement
	mustUnmarshal(t, admin("placement", "show", "--json"), &p)
	if len(p.Layers) != 5 || len(p.Workers) != 2 || p.Experts != 16 || p.Workers[0].Parts+p.Workers[1].Parts != 5*16 {
		t.Errorf("placement %+v", p)
	}
	if text := admin("placement", "show", "--layer", "1"); !strings.Contains(text, "LAYER 1") {
		t.Errorf("placement:\n%s", text)
	}
	var report backgroundReport
	mustUnmarshal(t, admin("placement", "rebalance", "--json"), &report)
	if !report.Done || report.Epoch < p.Epoch {
		t.Errorf("rebalance: %+v, before it placement %d was active", report, p.Epoch)
	}
	mustUnmarshal(t, admin("drain", "w1", "--json"), &report)
	if s = status(); !report.Done || s.Members.Active.Epoch != report.Epoch || !slices.Equal(s.Members.Active.Workers, []string{"w0"}) {
		t.Errorf("drain: %+v, then %+v", report, s.Members.Active)
	}
	if again := answer(); again != want {
		t.Errorf("after a drain %q, before %q", again, want)
	}
	for _, fails := range []struct {
		code int
		args []string
		want string
	}{
		{exitFailure, []string{"drain", "w0"}, "no other worker"},
		{exitFailure, []string{"drain", "w7"}, "there is no worker"},
		{exitUsage, []string{"drain"}, "moepool status"},
		{exitUsage, []string{"drain", "a.b"}, "a.b"},
		{exitUsage, []string{"placement"}, "rebalance"},
		{exitUsage, []string{"placement", "show", "--layer", "77"}, "77"},
		{exitUsage, []string{"status", "--watch"}, "--json"},
		{exitFailure, []string{"status", "--cluster", "other"}, "cluster other"},
	} {
		args := fails.args
		if len(args) > 1 || args[0] != "placement" {
			args = append(args, c.shared...)
		}
		if stderr := moepoolFails(t, fails.code, args...); !strings.Contains(stderr, fails.want) {
			t.Errorf("%q: %q lacks %q", fails.args, stderr, fails.want)
		}
	}
	if stderr := moepoolFails(t, exitUsage, "status"); !strings.Contains(stderr, "--nats") {
		t.Errorf("without a server: %q", stderr)
	}
}
