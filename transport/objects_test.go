package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestObjects: a coordinator's key may store and delete, a worker's read, a client's neither; with the permissions of the roles only.
func TestObjects(t *testing.T) {
	t.Parallel()
	k := newKeyed(t, func(o *server.Options) { o.JetStream, o.StoreDir = true, t.TempDir() })
	open := func(name string, create bool) (*Objects, error) {
		return OpenObjects(testContext(t), k.connect(t, name), "c", create)
	}
	if _, err := open("left", false); !errors.Is(err, ErrNoObject) {
		t.Fatalf("before the first: %v", err)
	}
	store, err := open("coordinator", true)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 3<<20+17) // many messages
	random := rand.NewChaCha8([32]byte{1})
	random.Read(data)
	for name, content := range map[string][]byte{"large": data, "small": {1}, "empty": {}} {
		if err := store.Put(testContext(t), name, content); err != nil {
			t.Fatal(err)
		}
		if there, err := store.Has(testContext(t), name); !there || err != nil {
			t.Fatal(name, there, err)
		}
	}
	if there, err := store.Has(testContext(t), "other"); there || err != nil {
		t.Fatal(there, err)
	}
	worker, err := open("left", false)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"large": data, "small": {1}, "empty": {}} {
		if got, err := worker.Get(testContext(t), name, len(data)); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := worker.Get(testContext(t), "large", len(data)-1); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too long: %v", err)
	}
	if _, err := worker.Get(testContext(t), "other", 1); !errors.Is(err, ErrNoObject) {
		t.Errorf("not there: %v", err)
	}
	if err := store.Delete(testContext(t), "small"); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Get(testContext(t), "small", 1); !errors.Is(err, ErrNoObject) {
		t.Errorf("deleted: %v", err)
	}
	if err := store.Put(testContext(t), "large", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := worker.Get(testContext(t), "large", 10); err != nil || string(got) != "new" {
		t.Errorf("replaced: %q, %v", got, err)
	}
	// A worker can't change what others get.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := worker.Put(ctx, "large", []byte("bad")); err == nil {
		t.Error("a worker stored an object")
	}
	if got, err := store.Get(testContext(t), "large", 10); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	client := k.connect(t, "client")
	for _, subject := range append(objectReads("c"), objectWrites("c")...) {
		if mayPublish(t, client, strings.NewReplacer("*", "x", ">", "x").Replace(subject)) {
			t.Errorf("a client may publish on %s", subject)
		}
	}
}

// TestObjectsStop: a transfer ends with its context, and a server without JetStream is named.
func TestObjectsStop(t *testing.T) {
	t.Parallel()
	none := startServer(t, ServerOptions{})
	if _, err := OpenObjects(testContext(t), connect(t, none, true), "c", true); err == nil || !strings.Contains(err.Error(), "JetStream") {
		t.Fatal(err)
	}
	s := startServer(t, ServerOptions{StoreDir: t.TempDir(), MaxPayload: 64 << 10})
	c := connect(t, s, false)
	store, err := OpenObjects(testContext(t), c, "c", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(testContext(t), "x", make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := store.Get(ctx, "x", 1<<20); !errors.Is(err, context.Canceled) && !errors.Is(err, nats.ErrTimeout) {
		t.Fatal(err)
	}
}

// TestPatiently: a store that was opened is asked again while nobody answers; other errors are told at once, and so is this one when time is up.
func TestPatiently(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, c := range []struct {
		answers []error
		want    error
	}{
		{[]error{nil}, nil},
		{[]error{fmt.Errorf("stream: %w", nats.ErrNoResponders), jetstream.ErrNoStreamResponse, nil}, nil},
		{[]error{nats.ErrNoResponders, other}, other},
	} {
		asked := 0
		err := patiently(testContext(t), func() error { asked++; return c.answers[asked-1] })
		if err != c.want || asked != len(c.answers) {
			t.Errorf("%v: %v, asked %d times", c.answers, err, asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := patiently(ctx, func() error { cancel(); return nats.ErrNoResponders })
	if !errors.Is(err, nats.ErrNoResponders) {
		t.Error(err)
	}
}
