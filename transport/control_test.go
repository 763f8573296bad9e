package transport

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestBeats: beats arrive whole and in order, also in parts; a coordinator's beat ends silence.
func TestBeats(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{MaxPayload: 64 << 10})
	requester := newTestRequester(t, connect(t, s, true), "c")
	beats := make(chan *Beat, 16)
	stop, err := requester.SubscribeBeats(func(b *Beat) { beats <- b })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	flush(t, requester.conn)
	far := connect(t, s, false)
	r := newTestResponder(t, far, "c", "w0", "i0", &testHandler{})
	want := &Beat{Worker: "w0", Instance: "i0", Node: -1, CPUs: []int{0, 5}, State: StateIdle, Identity: Identity{Protocol: 1, Format: "q8"},
		Resident: []LayerBitmap{{3, make([]byte, 100<<10)}}, Notes: []string{"not pinned"}, Arena: ArenaReport{Files: 2}}
	for i := range 3 {
		want.Epoch = uint64(i)
		if err := r.Beat(want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, <-beats, compareMessages); d != "" {
			t.Fatal(d)
		}
	}
	if requester.Malformed() != 0 {
		t.Fatalf("%d malformed", requester.Malformed())
	}

	// A beat that names another worker than its subject, and one of another version.
	out := newSender(far)
	if err := out.send(beatSubject("c", "w1"), "", kindBeat, want); err != nil {
		t.Fatal(err)
	}
	frame := []byte{0x94, ProtocolVersion + 1, byte(kindBeat), 0x90, 0x90}
	if err := far.nats.Publish(beatSubject("c", "w7"), frame); err != nil {
		t.Fatal(err)
	}
	if b := <-beats; b.Worker != "w7" || b.Identity.Protocol != ProtocolVersion+1 || b.Instance != "" {
		t.Fatalf("%+v", b)
	}
	if requester.Malformed() != 2 {
		t.Fatalf("%d malformed", requester.Malformed())
	}
	stop()
	stop()
}

// waitFor waits for a condition that other goroutines bring about.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(testDeadline); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, testDeadline)
		}
	}
}

// TestCoordinatorSilence: before an assignment every coordinator counts, afterwards only the one that assigned.
func TestCoordinatorSilence(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	mine, other := newTestRequester(t, connect(t, s, true), "c"), newTestRequester(t, connect(t, s, false), "c")
	h := &testHandler{}
	r := newTestResponder(t, connect(t, s, false), "c", "w0", "i0", h)
	age := func() {
		r.heard.mu.Lock()
		defer r.heard.mu.Unlock()
		r.heard.at = time.Now().Add(-time.Hour)
	}
	fresh := func() bool { return r.CoordinatorSilence() < 1800 }
	// say has a coordinator say something, and waits until the worker has seen everything before.
	say := func(from *Requester, instance string) {
		if err := from.CoordinatorBeat(&CoordinatorBeat{Instance: instance, Term: 4, Epoch: 9}); err != nil {
			t.Fatal(err)
		}
		flush(t, from.conn)
	}
	age()
	say(other, "other")
	waitFor(t, "any coordinator's beat", fresh)
	waitFor(t, "the assignment", func() bool { return mine.Assign(testContext(t), "w0", &Assign{Coordinator: "mine"}) == nil })
	age()
	say(other, "other")
	if err := other.Send("w0", testWork(1, 1, 8, true), make(chan Reply, 4)); err != nil {
		t.Fatal(err)
	}
	flush(t, other.conn)
	if err := other.Refuse(testContext(t), "w0", "somebody-else", &Refuse{}); err == nil {
		t.Fatal("a message for another instance was acknowledged")
	}
	if fresh() {
		t.Fatal("another coordinator ended the silence")
	}
	say(mine, "mine")
	waitFor(t, "the own coordinator's beat", fresh)
	age()
	if err := mine.Send("w0", testWork(1, 1, 8, true), make(chan Reply, 4)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the own coordinator's work", fresh)
	// The handler is told of every coordinator, after the clock.
	waitFor(t, "all beats", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.beats) >= 3
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	want := []CoordinatorBeat{{Instance: "other", Term: 4, Epoch: 9}, {Instance: "other", Term: 4, Epoch: 9}, {Instance: "mine", Term: 4, Epoch: 9}}
	if d := cmp.Diff(want, h.beats); d != "" {
		t.Fatal(d)
	}
}

// TestAssign: an assignment arrives whole, in parts too; a refusal by the handler comes back typed.
func TestAssign(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{MaxPayload: 64 << 10})
	requester := newTestRequester(t, connect(t, s, true), "c")
	got := make(chan *Assign, 4)
	newTestResponder(t, connect(t, s, false), "c", "w0", "i0", &testHandler{assign: func(_ context.Context, m *Assign) error {
		got <- m
		switch m.Epoch {
		case 2:
			return &RemoteError{Code: CodeRefused, Message: "no"}
		case 3:
			panic("boom")
		}
		return nil
	}})
	want := &Assign{Coordinator: "me", Epoch: 1, Term: 5, Identity: Identity{Format: "q8", Parts: 2}}
	for layer := range 40 {
		parts := make([]uint32, 1000)
		for i := range parts {
			parts[i] = uint32(2*i + layer)
		}
		want.Layers = append(want.Layers, LayerParts{layer * 2, parts})
	}
	if err := requester.Assign(testContext(t), "w0", want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, <-got, compareMessages); d != "" {
		t.Fatal(d)
	}
	for epoch, c := range map[uint64]ErrorCode{2: CodeRefused, 3: CodeInternal} {
		var remote *RemoteError
		if err := requester.Assign(testContext(t), "w0", &Assign{Epoch: epoch}); !errors.As(err, &remote) || remote.Code != c {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
	bad := &Assign{Layers: []LayerParts{{1, []uint32{5, 4}}}}
	if err := requester.Assign(testContext(t), "w0", bad); err == nil || !strings.Contains(err.Error(), "must ascend") {
		t.Fatal(err)
	}
}

// TestMalformedMessages: frames that can't be decoded cost an error reply and a counter on either side, and nothing else.
func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	h := &testHandler{work: answerSums}
	r := newTestResponder(t, connect(t, s, false), "c", "w0", "i0", h)
	hostile := connect(t, s, false)
	frames := []struct {
		hex  string
		code ErrorCode
	}{
		{"dd ff ff ff ff", CodeMalformed}, {"", CodeMalformed}, {"93 VV 02 dd ff ff ff ff", CodeMalformed}, {"93 VV 03 90", CodeMalformed},
		{"93 WW 02 90", CodeVersion}, {"93 VV 01 95 c4 10 000102030405060708090a0b0c0d0e0f 02 05 01 c4 00", CodeMalformed}, {"c1", CodeMalformed},
	}
	var in receiver
	in.parts, in.malformed = newAssembler(), &requester.malformed
	for _, subject := range []string{workSubject("c", "w0"), controlSubject("c", "w0")} {
		for i, f := range frames {
			before := r.Malformed()
			m, err := hostile.nats.Request(subject, fromHex(t, f.hex), testDeadline)
			if err != nil {
				t.Fatalf("%s, frame %d: %v", subject, i, err)
			}
			k, err := in.frame("", m.Data)
			if err != nil {
				t.Fatal(err)
			}
			var got ErrorCode
			if k == kindError {
				var e failure
				err, got = in.decode(&e), e.code
			} else {
				var e ack
				err, got = in.decode(&e), e.code
			}
			if err != nil || got != f.code {
				t.Errorf("%s, frame %d: kind %d, code %q, error %v", subject, i, k, got, err)
			}
			if n := r.Malformed() - before; n != 1 {
				t.Errorf("%s, frame %d: counted %d times", subject, i, n)
			}
		}
	}
	for _, f := range frames {
		frame := fromHex(t, f.hex)
		for _, subject := range []string{coordinatorSubject("c"), beatSubject("c", "w0"), requester.inbox + ".w0", requester.inbox + ".nobody"} {
			if err := hostile.nats.Publish(subject, frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	// An error in a message whose request could be read names it.
	w := testWork(77, 1, 8, true)
	var e wire
	if err := encode(&e, kindWork, &workFrame{work: w}); err != nil {
		t.Fatal(err)
	}
	m, err := hostile.nats.Request(workSubject("c", "w0"), e.buf[:len(e.buf)-1], testDeadline)
	if err != nil {
		t.Fatal(err)
	}
	var f failure
	if _, err := in.frame("", m.Data); err != nil {
		t.Fatal(err)
	}
	if err := in.decode(&f); err != nil || f.request != 77 || f.attempt != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	flush(t, hostile)

	before := requester.Malformed()
	replies := make(chan Reply, 4)
	if err := requester.Send("w0", w, replies); err != nil {
		t.Fatal(err)
	}
	expectSum(t, w, receive(t, replies))
	if before > requester.Malformed() || requester.Malformed() == 0 {
		t.Fatalf("the requester counted %d malformed messages", requester.Malformed())
	}
	if h.refused != nil || h.drained != 0 {
		t.Fatalf("%+v", h)
	}
}

// TestRefuseOfAnotherVersion: a worker understands why a coordinator of another version refuses it.
func TestRefuseOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	h := &testHandler{}
	newTestResponder(t, connect(t, s, false), "c", "w0", "i0", h)
	var w wire
	if err := encode(&w, kindRefuse, &control{1, "i0", &Refuse{"protocol: coordinator 2, worker w0 1"}}); err != nil {
		t.Fatal(err)
	}
	w.buf[1] = ProtocolVersion + 1
	other := connect(t, s, false)
	if _, err := other.nats.Request(controlSubject("c", "w0"), w.buf, testDeadline); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := cmp.Diff([]string{"protocol: coordinator 2, worker w0 1"}, h.refused); d != "" {
		t.Fatal(d)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{"": false, "a": true, "A-9_z": true, "a.b": false, "a b": false, "ä": false, "*": false, ">": false,
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false} {
		if ValidName(name) != valid {
			t.Errorf("%q: %v", name, !valid)
		}
	}
	s := startServer(t, ServerOptions{})
	c := connect(t, s, true)
	if _, err := NewRequester(c, "a.b"); err == nil {
		t.Error("a cluster name with a dot was taken")
	}
	if _, err := NewResponder(c, "c", "w*", "i", &testHandler{}); err == nil {
		t.Error("a worker id with a star was taken")
	}
}

// TestProbe: a living worker is not disturbed; what waits for one that is gone is answered.
func TestProbe(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{})
	requester := newTestRequester(t, connect(t, s, true), "c")
	far, started := connect(t, s, false), make(chan struct{})
	r := newTestResponder(t, far, "c", "w0", "i0", &testHandler{work: func(ctx context.Context, w *Work) (*Result, error) {
		if w.Request == 2 {
			close(started)
			<-ctx.Done()
		}
		return sumOf(w), nil
	}})
	replies := make(chan Reply, 16)
	probe := func() {
		if err := requester.Probe("w0"); err != nil {
			t.Fatal(err)
		}
	}
	probe()
	w := testWork(1, 1, 8, true)
	if err := requester.Send("w0", w, replies); err != nil {
		t.Fatal(err)
	}
	expectSum(t, w, receive(t, replies))
	if r.Malformed() != 0 {
		t.Fatal("the probe was not understood")
	}
	if err := requester.Send("w0", testWork(2, 1, 8, true), replies); err != nil {
		t.Fatal(err)
	}
	<-started
	probe()
	r.unsubscribe()
	flush(t, far)
	probe()
	if got := receive(t, replies); !errors.Is(got.Err, ErrNoWorker) || got.Request != 2 {
		t.Fatalf("%+v", got)
	}
}
