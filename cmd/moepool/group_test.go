//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moepool/moepool/coordinator"
	group "github.com/moepool/moepool/coordinator/cluster"
	"github.com/moepool/moepool/coordinator/serve"
	"github.com/moepool/moepool/internal/reservedport"
	"github.com/moepool/moepool/transport"
)

// coordinators is a group of coordinator processes on one external NATS.
type coordinators struct {
	t         testing.TB
	server    *transport.Server
	token     string
	certs     string
	peers     string
	dirs      string
	arguments []string
	heartbeat time.Duration // --raft-heartbeat; 0 is the default
	processes map[string]*process
	urls      map[string]string // of NATS for each; default: the server's
	addresses map[string]string // of HTTP
}

// busyHeartbeat is that of groups on a machine that is busy with other tests: with the default, a leader whose process gets no CPU for a quarter of a
// second leads no more, and so another one leads than the one that a test means.
const busyHeartbeat = 3 * time.Second

// newCoordinators prepares a group a, b, c.
func newCoordinators(t testing.TB, arguments ...string) *coordinators {
	t.Helper()
	g := &coordinators{t: t, server: newServer(t), certs: t.TempDir(), dirs: t.TempDir(), heartbeat: busyHeartbeat,
		processes: map[string]*process{}, addresses: map[string]string{}, arguments: arguments}
	g.token = writeFile(t, g.server.Token())
	var peers []string
	for _, id := range []string{"a", "b", "c"} {
		peers = append(peers, id+"="+reservedport.Address(t))
	}
	g.peers = strings.Join(peers, ",")
	moepool(t, "coordinator", "certificates", g.certs, "--raft-peers", g.peers)
	return g
}

func (g *coordinators) start(ids ...string) {
	for _, id := range ids {
		files, url := group.CertificateFiles(g.certs, id), g.server.URL()
		if g.urls[id] != "" {
			url = g.urls[id]
		}
		g.processes[id] = startProcess(g.t, append([]string{"coordinator", "--nats", url, "--token-file", g.token, "--http", g.http(id), "--json",
			"--raft-dir", filepath.Join(g.dirs, id), "--raft-id", id, "--raft-peers", g.peers, "--raft-heartbeat", g.heartbeat.String(),
			"--raft-ca", files.CA, "--raft-cert", files.Cert, "--raft-key", files.Key}, g.arguments...)...)
	}
}

// http is the address of /metrics and /readyz of one of them.
func (g *coordinators) http(id string) string {
	if g.addresses[id] == "" {
		g.addresses[id] = reservedport.Address(g.t)
	}
	return g.addresses[id]
}

// readiness is what one of them says of itself once it is ready, to lead or to take over.
func (g *coordinators) readiness(id string) coordinator.GroupStatus {
	g.t.Helper()
	var r struct{ Group coordinator.GroupStatus }
	waitFor(g.t, waitLimit, func() (bool, string) {
		body, err := tryHTTP("http://" + g.http(id) + "/readyz")
		if err != nil {
			return false, fmt.Sprintf("%s to be ready: %v", id, err)
		}
		mustUnmarshal(g.t, body, &r)
		return true, ""
	})
	return r.Group
}

func (g *coordinators) worker(id string, arguments ...string) *process {
	return startProcess(g.t, append([]string{"worker", "--nats", g.server.URL(), "--token-file", g.token, "--id", id, "--node", "0", "--arena-dir", "none"}, arguments...)...)
}

// led gives the terms that a process has led, in its own words.
func (p *process) led() []coordinatorReady {
	var led []coordinatorReady
	decoder := json.NewDecoder(strings.NewReader(p.stdout.String()))
	for {
		var r coordinatorReady
		if decoder.Decode(&r) != nil {
			return led
		}
		led = append(led, r)
	}
}

// leader waits for one that leads a term above another's, and gives its id and that term.
func (g *coordinators) leader(above uint64) (id string, term uint64) {
	g.t.Helper()
	waitFor(g.t, waitLimit, func() (bool, string) {
		said := ""
		for candidate, p := range g.processes {
			for _, r := range p.led() {
				if r.Term > max(above, term) && r.Leader == candidate {
					id, term = candidate, r.Term
				}
			}
			said += candidate + ": " + p.stderr.String()
		}
		return term > above, fmt.Sprintf("a leader of a term above %d; stderr:\n%s", above, said)
	})
	return id, term
}

func (g *coordinators) ask(arguments ...string) runReport {
	g.t.Helper()
	return runJSON(g.t, append([]string{"--nats", g.server.URL(), "--token-file", g.token, "--max-tokens", "12", demoPrompt}, arguments...)...)
}

// Three coordinators and a worker: whoever leads answers the same, after the leader was killed, after it was told to end (which hands the lead
// over), and after all of them were killed and started again; the worker stays.
func TestGroup(t *testing.T) {
	t.Parallel()
	alone := runJSON(t, "--max-tokens", "12", demoPrompt)
	g := newCoordinators(t)
	g.start("a", "b", "c")
	worker := g.worker("w0")
	check := func(when string) {
		t.Helper()
		if r := g.ask(); !slices.Equal(r.Tokens, alone.Tokens) || r.FinishReason != alone.FinishReason {
			t.Errorf("%s: %q (%s), alone %q", when, r.Text, r.FinishReason, alone.Text)
		}
	}
	first, term := g.leader(0)
	check("at first")
	for id := range g.processes {
		waitFor(t, waitLimit, func() (bool, string) { // a follower hears of the last command a moment later
			first, term = g.leader(0) // of the newest term
			leads, s := g.readiness(first), g.readiness(id)
			alike := s.Coordinator == id && s.Leader == first && s.Term == term && s.Verified == (id == first) && len(s.Peers) == 3 && s.Epoch == 1 &&
				s.Workers == 1 && s.Index == leads.Index && s.History == leads.History
			want := fmt.Sprintf("moepool_coordinator_leads %d\n", map[bool]int{true: 1}[id == first])
			alike = alike && strings.Contains(httpGet(t, "http://"+g.http(id)+"/metrics"), want)
			return alike, fmt.Sprintf("%+v at %s to be as %+v, and its metrics to have %s", s, id, leads, want)
		})
	}

	g.processes[first].Process.Kill()
	<-g.processes[first].ended
	begin := time.Now()
	second, next := g.leader(term)
	t.Logf("%s leads %v after %s was killed", second, time.Since(begin).Round(time.Millisecond), first)
	check("after SIGKILL of the leader")
	if stderr := worker.stderr.String(); strings.Count(stderr, "is ready") != 1 {
		t.Errorf("the worker loaded again:\n%s", stderr)
	}

	g.start(first)
	g.processes[first].awaitOutput(t, &g.processes[first].stderr, "stands by")
	signalProcess(t, g.processes[second].Process.Pid, syscall.SIGTERM)
	if code := g.processes[second].await(t, 10*time.Second+loaded); code != exitTerminated {
		t.Errorf("exit code %d, want %d: %s", code, exitTerminated, g.processes[second].stderr.String())
	}
	if stderr := g.processes[second].stderr.String(); strings.Contains(stderr, "could not be given") || !strings.Contains(stderr, "leads no more") {
		t.Errorf("the lead was not handed over: %s", stderr)
	}
	_, last := g.leader(next)
	check("after SIGTERM of the leader")

	for _, p := range g.processes {
		p.Process.Kill()
		<-p.ended
	}
	g.start("a", "b", "c")
	if _, after := g.leader(last); after <= last {
		t.Errorf("term %d after %d", after, last)
	}
	check("after a restart of all")
	if !alive(worker.Process.Pid) {
		t.Error("the worker has ended")
	}
}

// An answer in progress goes on when the leader is killed on the way, with the same tokens, sampled ones too: the client asks the next leader to
// continue.
func TestGroupContinuesAnswers(t *testing.T) {
	t.Parallel()
	model := longModel(t)
	sampling := []string{"--raw", "--ignore-eos", "--max-tokens", tokensOf(3000), "--temperature", "0.8", "--seed", "7"}
	alone := runJSON(t, append([]string{"--model", model, "--arena-dir", "none", demoPrompt}, sampling...)...)
	g := newCoordinators(t, "--model", model)
	g.start("a", "b", "c")
	g.worker("w0", "--model", model)
	leader, term := g.leader(0)
	for range 2 {
		p := startProcess(t, append([]string{"run", "--nats", g.server.URL(), "--token-file", g.token, "--quiet", demoPrompt}, sampling...)...)
		waitFor(t, waitLimit, func() (bool, string) {
			return len(p.stdout.String()) > 100, "text of a long answer; stderr: " + p.stderr.String()
		})
		g.processes[leader].Process.Kill()
		<-g.processes[leader].ended
		killed := leader
		leader, term = g.leader(term)
		if code := p.await(t, waitLimit); code != 0 {
			t.Fatalf("exit code %d: %s", code, p.stderr.String())
		}
		if got := strings.TrimSuffix(p.stdout.String(), "\n"); got != strings.TrimSuffix(alone.Text, "\n") {
			t.Errorf("%d bytes of text, alone %d; they differ", len(got), len(alone.Text))
		}
		g.start(killed)
		g.processes[killed].awaitOutput(t, &g.processes[killed].stderr, "stands by")
	}
}

// What is wrong with a group's flags is said before anything is loaded; a coordinator that has something else than the group serves ends.
func TestGroupRefusals(t *testing.T) {
	t.Parallel()
	for want, arguments := range map[string][]string{
		"--raft-id: --raft-dir is missing": {"--raft-id", "a"},
		"--raft-dir needs --nats":          {"--raft-dir", "x", "--raft-id", "a"},
		"--raft-dir needs --raft-id":       {"--raft-dir", "x", "--nats", "nats://127.0.0.1:1"},
	} {
		if stderr := moepoolFails(t, exitUsage, append([]string{"coordinator"}, arguments...)...); !strings.Contains(stderr, want) {
			t.Errorf("%v: %q, want %q", arguments, stderr, want)
		}
	}
	g := newCoordinators(t)
	g.start("a", "b")
	g.worker("w0")
	g.leader(0)
	g.ask()
	g.arguments = []string{"--format", "bf16"}
	g.start("c")
	if code := g.processes["c"].await(t, waitLimit); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	if stderr := g.processes["c"].stderr.String(); !strings.Contains(stderr, "format: the group q8, this coordinator bf16") {
		t.Error(stderr)
	}
	g.ask()
}

// A group's policies outlive the leader that was given them: another one, without the flag, drops experts alike.
func TestGroupPolicies(t *testing.T) {
	t.Parallel()
	alone := runJSON(t, "--max-tokens", "12", "--expert-budget", "2", "--budget-residency", "none", demoPrompt)
	g := newCoordinators(t, "--budget-residency", "none", "--expert-budget", "2")
	g.start("a")
	g.arguments = g.arguments[:2]
	g.start("b", "c")
	g.worker("w0")
	leader, term := g.leader(0)
	for leader != "a" { // it gives its policy to the group when it leads
		signalProcess(t, g.processes[leader].Process.Pid, syscall.SIGTERM)
		g.processes[leader].await(t, waitLimit)
		g.start(leader)
		leader, term = g.leader(term)
	}
	with := g.ask()
	g.processes["a"].Process.Kill()
	<-g.processes["a"].ended
	g.leader(term)
	without := g.ask()
	if !slices.Equal(with.Tokens, alone.Tokens) || !slices.Equal(without.Tokens, alone.Tokens) {
		t.Errorf("%q, then %q, alone %q", with.Text, without.Text, alone.Text)
	}
}

// A leader that is frozen for a while loses its lead; when it goes on, it finds out before it does any harm. The answer that it had begun is
// continued by the next one.
func TestGroupFrozenLeader(t *testing.T) {
	t.Parallel()
	model := longModel(t)
	sampling := []string{"--raw", "--ignore-eos", "--max-tokens", tokensOf(3000), "--temperature", "0.8", "--seed", "8"}
	alone := runJSON(t, append([]string{"--model", model, "--arena-dir", "none", demoPrompt}, sampling...)...)
	g := newCoordinators(t, "--model", model)
	g.start("a", "b", "c")
	g.worker("w0", "--model", model)
	frozen, term := g.leader(0)
	p := startProcess(t, append([]string{"run", "--nats", g.server.URL(), "--token-file", g.token, "--quiet", demoPrompt}, sampling...)...)
	waitFor(t, waitLimit, func() (bool, string) {
		return len(p.stdout.String()) > 100, "text of a long answer; stderr: " + p.stderr.String()
	})
	signalProcess(t, g.processes[frozen].Process.Pid, syscall.SIGSTOP)
	_, term = g.leader(term)
	signalProcess(t, g.processes[frozen].Process.Pid, syscall.SIGCONT)
	g.processes[frozen].awaitOutput(t, &g.processes[frozen].stderr, "leads no more")
	if code := p.await(t, waitLimit); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr.String())
	}
	if got := strings.TrimSuffix(p.stdout.String(), "\n"); got != strings.TrimSuffix(alone.Text, "\n") {
		t.Errorf("%d bytes of text, alone %d; they differ", len(got), len(alone.Text))
	}
	if led := g.processes[frozen].led(); led[len(led)-1].Term > term {
		t.Errorf("%s leads again: %v", frozen, led)
	}
}

// A leader that reaches the other coordinators, but not NATS, hands the lead over.
func TestGroupLeaderWithoutNATS(t *testing.T) {
	t.Parallel()
	g := newCoordinators(t)
	g.urls = map[string]string{}
	between := map[string]*relay{}
	for _, id := range []string{"a", "b", "c"} {
		between[id] = newRelay(t, strings.TrimPrefix(g.server.URL(), "nats://"))
		g.urls[id] = "nats://" + between[id].listener.Addr().String()
	}
	g.start("a", "b", "c")
	g.worker("w0")
	cut, term := g.leader(0)
	before := g.ask()
	between[cut].cut()
	if next, _ := g.leader(term); next == cut {
		t.Fatalf("%s leads again", cut)
	}
	if after := g.ask(); !slices.Equal(before.Tokens, after.Tokens) {
		t.Errorf("%q, then %q", before.Text, after.Text)
	}
	g.processes[cut].awaitOutput(t, &g.processes[cut].stderr, "another coordinator shall lead")
}

// A drain that one leader has begun is brought to its end by the next one: the worker leaves, and its experts are elsewhere.
func TestGroupDrain(t *testing.T) {
	t.Parallel()
	g := newCoordinators(t, "--workers", "2")
	g.start("a", "b", "c")
	stays, leaves := g.worker("stays"), g.worker("leaves")
	leader, term := g.leader(0)
	before := g.ask()
	admin := []string{"--nats", g.server.URL(), "--token-file", g.token}
	moepool(t, append([]string{"drain", "--no-wait", "leaves"}, admin...)...)
	g.processes[leader].Process.Kill()
	<-g.processes[leader].ended
	if code := leaves.await(t, waitLimit); code != 0 {
		t.Errorf("exit code %d: %s", code, leaves.stderr.String())
	}
	g.leader(term)
	if after := g.ask(); !slices.Equal(before.Tokens, after.Tokens) {
		t.Errorf("%q, then %q", before.Text, after.Text)
	}
	if !alive(stays.Process.Pid) {
		t.Error("the other worker left, too")
	}
	waitFor(t, waitLimit, func() (bool, string) { // its leader needs the others' answers to be sure that it leads
		p := startProcess(t, append([]string{"status", "--json"}, admin...)...)
		if code := p.await(t, waitLimit); code != 0 {
			return false, "the status: " + p.stderr.String()
		}
		var status serve.Status
		mustUnmarshal(t, p.stdout.String(), &status)
		s := status.Group
		return s != nil && s.Verified && s.Epoch >= 2 && status.Leader == s.Leader && status.Members.Term == s.Term, fmt.Sprintf("the leader's status, which is %+v", status)
	})
}
