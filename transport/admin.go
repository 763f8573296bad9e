package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Admin commands are JSON both ways, so that `nats request moe.CLUSTER.admin.status ”` is of use, too.

// AdminVerbs are the admin commands; each is an endpoint of its own, so that NATS' permissions can tell them apart.
var AdminVerbs = []string{AdminStatus, AdminDrain, AdminPlacement, AdminRebalance}

// The admin commands.
const (
	AdminStatus    = "status"
	AdminDrain     = "drain"
	AdminPlacement = "placement"
	AdminRebalance = "rebalance"
)

const (
	maxAdminRequest = 64 << 10 // bytes
	maxAdminAnswer  = 64 << 20
	maxAdminRunning = 16 // commands at once
	maxAdminAnswers = 16 // of one command, of which the first counts
	adminLimit      = 10 * time.Second
)

// AdminFunc carries out an admin command; request is its JSON, possibly empty. The answer becomes JSON. ctx ends with the service, or after
// ten seconds.
type AdminFunc func(ctx context.Context, verb string, request []byte) (answer any, err error)

// AdminError is what a coordinator answers to a command that it can't carry out.
type AdminError struct{ Message string }

func (e *AdminError) Error() string { return "coordinator: " + e.Message }

// Codes of NATS' convention for errors of services.
const (
	adminRefused = "400"
	adminFailed  = "500"
	adminBusy    = "503"
)

// adminServer carries out admin commands, each in a goroutine of its own.
type adminServer struct {
	cluster  string
	carryOut AdminFunc
	ctx      context.Context
	cancel   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running int
	done    sync.WaitGroup
}

func newAdminServer(cluster string, f AdminFunc) *adminServer {
	s := &adminServer{cluster: cluster, carryOut: f}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// stop waits for the commands in progress.
func (s *adminServer) stop() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.done.Wait()
}

// arrived takes a command from NATS.
func (s *adminServer) arrived(verb string, r micro.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || !answerable(s.cluster, r.Reply()): // the client finds nobody
	case s.running == maxAdminRunning:
		_ = r.Error(adminBusy, fmt.Sprintf("%d commands are carried out already; try again", maxAdminRunning), nil)
	case len(r.Data()) > maxAdminRequest:
		_ = r.Error(adminRefused, fmt.Sprintf("the request has %d bytes, at most %d are taken", len(r.Data()), maxAdminRequest), nil)
	default:
		s.running++
		s.done.Go(func() {
			s.answer(verb, r)
			s.mu.Lock()
			s.running--
			s.mu.Unlock()
		})
	}
}

// answer carries out one command; errors of sending it are the client's to notice.
func (s *adminServer) answer(verb string, r micro.Request) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, adminLimit, fmt.Errorf("not done within %s", adminLimit))
	defer cancel()
	answer, err := s.call(ctx, verb, r.Data())
	var data []byte
	if err == nil {
		data, err = json.Marshal(answer)
	}
	if err != nil {
		_ = r.Error(adminFailed, shorten(err.Error(), maxText), nil)
		return
	}
	if err := r.Respond(data); err != nil {
		_ = r.Error(adminFailed, shorten(fmt.Sprintf("the answer of %d bytes can't be sent: %v", len(data), err), maxText), nil)
	}
}

// call makes an error of a panic.
func (s *adminServer) call(ctx context.Context, verb string, request []byte) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.carryOut(ctx, verb, request)
}

func shorten(s string, most int) string { return s[:min(len(s), most)] }

// Admin sends a command to the cluster's coordinator and decodes its answer strictly into answer. ErrNoCoordinator: nobody answers. An
// *AdminError: the command was not carried out.
func Admin(ctx context.Context, c *Conn, cluster, verb string, request, answer any) error {
	if !ValidName(cluster) || !slices.Contains(AdminVerbs, verb) {
		return fmt.Errorf("admin command %q of cluster %q: valid commands are %q, valid names are 1 to 64 of A-Z a-z 0-9 _ -", verb, cluster, AdminVerbs)
	}
	var data []byte
	if request != nil {
		var err error
		if data, err = json.Marshal(request); err != nil {
			return err
		}
	}
	m, err := c.request(ctx, cluster, adminSubject(cluster, verb), data)
	if err != nil {
		return err
	}
	if problem := m.Header.Get(micro.ErrorHeader); problem != "" {
		return &AdminError{problem}
	}
	if len(m.Data) > maxAdminAnswer {
		return fmt.Errorf("the coordinator's answer has %d bytes, at most %d are taken", len(m.Data), maxAdminAnswer)
	}
	if err := DecodeStrictly(m.Data, answer); err != nil {
		return fmt.Errorf("the coordinator's answer: %w", err)
	}
	return nil
}

// request sends one message and waits for one, in an inbox of this connection's identity.
func (c *Conn) request(ctx context.Context, cluster, subject string, data []byte) (*nats.Msg, error) {
	inbox, answers := c.NewInbox(cluster), make(chan *nats.Msg, maxAdminAnswers)
	subscription, err := c.subscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer subscription.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	if err := c.nats.PublishRequest(subject, inbox, data); err != nil {
		return nil, sendError(err)
	}
	if err := c.unsent(subject); err != nil {
		return nil, err
	}
	select {
	case m := <-answers:
		if noResponders(m) {
			return nil, ErrNoCoordinator
		}
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// DecodeStrictly decodes one JSON value with no unknown field and nothing behind it.
func DecodeStrictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows the JSON value")
	}
	return nil
}
