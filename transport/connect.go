package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// ConnectOptions say how to reach NATS.
type ConnectOptions struct {
	URL                       string  // one URL or a comma-separated list
	Server                    *Server // not nil: in-process connection to it, URL and Token are ignored
	Cluster                   string  // whose subjects hold the inboxes of nats.go's own requests; "" is DefaultCluster
	Token                     string
	Credentials               string                           // .creds file
	NKey                      string                           // nkey seed file
	CAFile, CertFile, KeyFile string                           // TLS
	Name                      string                           // shown by the server's monitoring
	Log                       func(format string, args ...any) // reconnects and the like; may be nil
}

// Conn is a connection that reconnects for ever, to whichever server of the list or of their cluster answers, and never replays buffered
// messages.
type Conn struct {
	nats     *nats.Conn
	closed   chan struct{}
	identity string // in its inboxes

	mu     sync.Mutex
	denied map[string]error // what the server's permissions forbid, by its own words
	users  map[any]func()   // told when the connection is lost
}

const (
	connectAttempt = 2 * time.Second
	connectRetry   = 250 * time.Millisecond
	// A server that answers no ping for this many intervals is given up for another one.
	pingsUnanswered = 3
	// deniedWait is how long a new subscription waits for the server's refusal, while it is connected: a machine with far more to do than CPUs
	// may take seconds, and what was refused and not said would be waited for in vain.
	deniedWait = 30 * time.Second
)

// Connect waits until connected or ctx ends; the error names the URL and what failed. Log is told once
// that it has to wait.
func Connect(ctx context.Context, o ConnectOptions) (*Conn, error) {
	if o.Cluster == "" {
		o.Cluster = DefaultCluster
	}
	if err := checkName("cluster name", o.Cluster); err != nil {
		return nil, err
	}
	c := &Conn{closed: make(chan struct{}), denied: map[string]error{}, users: map[any]func(){}}
	options, err := o.options(c)
	if err != nil {
		return nil, err
	}
	where := "the embedded server"
	if o.Server == nil {
		if strings.TrimSpace(o.URL) == "" {
			return nil, errors.New("no NATS URL given (--nats nats://host:4222)")
		}
		if o.URL, where, err = servers(o.URL); err != nil {
			return nil, err
		}
	}
	for said := false; ; {
		c.nats, err = nats.Connect(o.URL, options...)
		if err == nil {
			o.warnOpen(c.nats)
			return c, nil
		}
		if permanent(err) {
			return nil, fmt.Errorf("connect to NATS at %s: %w%s", where, err, o.advice(err))
		}
		if !said && o.Log != nil {
			o.Log("warning: NATS at %s can't be reached (%v): trying again", where, err)
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to NATS at %s: %w (%w)", where, err, context.Cause(ctx))
		case <-time.After(connectRetry):
		}
	}
}

// permanent says that trying again can't help.
func permanent(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, errServerClosed) ||
		errors.Is(err, nats.ErrNkeysNotSupported) || errors.Is(err, nats.ErrSecureConnRequired) || errors.Is(err, nats.ErrSecureConnWanted) ||
		tlsRefused(err)
}

// tlsRefused says that one side did not accept the other's certificate.
func tlsRefused(err error) bool {
	verification, alert := (*tls.CertificateVerificationError)(nil), tls.AlertError(0)
	authority, host, invalid := x509.UnknownAuthorityError{}, x509.HostnameError{}, x509.CertificateInvalidError{}
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) ||
		errors.As(err, &alert) || strings.Contains(err.Error(), "remote error: tls: ") // crypto/tls has no type for the other side's alerts
}

// advice says which flags an error is about.
func (o *ConnectOptions) advice(err error) string {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		for flag, value := range map[string]string{"--nats-creds": o.Credentials, "--nats-nkey": o.NKey} {
			if value != "" {
				return fmt.Sprintf(" (the server does not know the key of %s %s)", flag, value)
			}
		}
		if o.Token != "" {
			return " (--token-file: another token)"
		}
		return " (the server wants to know who connects: --nats-creds, --nats-nkey or --token-file)"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return " (the server has no TLS: --nats-ca and --nats-cert need one that has)"
	case errors.Is(err, nats.ErrSecureConnRequired):
		return " (the server wants TLS: --nats-ca)"
	case strings.Contains(err.Error(), "remote error: tls: "):
		return " (the server did not take this side's certificate: --nats-cert and --nats-key)"
	case tlsRefused(err):
		return " (the server's certificate was not accepted: --nats-ca names the file of its CA)"
	}
	return ""
}

// warnOpen says that anybody who reaches the server can read prompts and answers and give work to workers.
func (o *ConnectOptions) warnOpen(n *nats.Conn) {
	if o.Server != nil || n.AuthRequired() || o.CertFile != "" || o.Log == nil {
		return
	}
	if host, _, err := net.SplitHostPort(n.ConnectedAddr()); err == nil && !loopback(host) {
		o.Log("warning: NATS at %s lets in anybody: see deploy/nats for a configuration with keys and TLS", n.ConnectedUrlRedacted())
	}
}

func (o *ConnectOptions) options(c *Conn) ([]nats.Option, error) {
	say := o.Log
	if say == nil {
		say = func(string, ...any) {}
	}
	options := []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(connectAttempt),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(connectRetry),
		nats.ReconnectJitter(connectRetry/2, connectRetry/2),
		nats.IgnoreAuthErrorAbort(), // a server that was restarted with another token may come back with the right one
		nats.ReconnectBufSize(-1),   // stale work must not be replayed
		nats.PingInterval(ProgressInterval),
		nats.MaxPingsOutstanding(pingsUnanswered),
		nats.FlusherTimeout(SilenceLimit),
		nats.SkipSubjectValidation(), // subjects are our own, names in them are checked by ValidName
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.DisconnectErrHandler(func(n *nats.Conn, err error) {
			c.tellLost()
			if err != nil {
				say("NATS: connection lost: %v", err)
			}
		}),
		nats.ReconnectHandler(func(n *nats.Conn) {
			c.forgetDenied()
			say("NATS: connected again to %s", n.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) { c.report(s, err, say) }),
	}
	identity := anyIdentity
	if o.Server != nil {
		options = append(options, nats.InProcessServer(inProcess{o.Server}), nats.Token(o.Server.token))
	} else {
		credentials, who, err := o.credentials()
		if err != nil {
			return nil, err
		}
		options, identity = append(options, credentials...), who
	}
	c.identity = identity
	return append(options, nats.CustomInboxPrefix(inboxPrefix(o.Cluster, identity))), nil
}

// report is told of errors that come later: each thing that the server's permissions forbid is said once a connection.
func (c *Conn) report(s *nats.Subscription, err error, say func(format string, args ...any)) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		c.mu.Lock()
		_, known := c.denied[err.Error()]
		c.denied[err.Error()] = err
		c.mu.Unlock()
		if !known {
			say("warning: the NATS server's permissions don't allow it: %v", err)
		}
		return
	}
	if s != nil {
		dropped, _ := s.Dropped()
		say("NATS: %s: %v (%d messages lost)", s.Subject, err, dropped)
		return
	}
	say("NATS: %v", err)
}

// onLost has a function called, from a goroutine of the connection's, each time that it is lost; nil ends that.
func (c *Conn) onLost(user any, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users[user] = f; f == nil {
		delete(c.users, user)
	}
}

func (c *Conn) tellLost() {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.users))
	c.mu.Unlock()
	for _, f := range all {
		f()
	}
}

func (c *Conn) forgetDenied() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.denied)
}

// subscribe subscribes and gives the server's refusal, if it answers within deniedWait. Without a connection nothing is known yet: then
// the log says it later.
func (c *Conn) subscribe(subject string, to chan *nats.Msg) (*nats.Subscription, error) {
	s, err := c.nats.ChanSubscribe(subject, to)
	if err == nil {
		if err = c.refusal(subject); err != nil {
			_ = s.Unsubscribe() // fails only on a closed connection
		}
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return s, nil
}

// refusal is the server's answer to a new subscription: nil if it was taken.
func (c *Conn) refusal(subject string) error { return c.denial("Subscription", subject) }

// unsent is the server's refusal of a message that was just published; nil if it was taken, or if there is no connection now.
func (c *Conn) unsent(subject string) error { return c.denial("Publish", subject) }

// denial waits until the server has read what was sent, or the connection is lost, and gives its word that an operation on a subject is not
// allowed.
func (c *Conn) denial(operation, subject string) error {
	ctx, cancel := context.WithTimeout(context.Background(), deniedWait)
	defer cancel()
	c.onLost(ctx, cancel)
	defer c.onLost(ctx, nil)
	if !c.nats.IsConnected() || c.nats.FlushWithContext(ctx) != nil {
		return nil
	}
	err := c.nats.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), fmt.Sprintf("%s to %q", operation, subject)) {
		return fmt.Errorf("the NATS server does not allow it with this connection's key: %w", err)
	}
	return nil
}

// NewInbox gives a new subject of a cluster in which only this connection's identity gets answers.
func (c *Conn) NewInbox(cluster string) string {
	return inboxPrefix(cluster, c.identity) + "." + nuid.Next()
}

// inProcess gives connections to an embedded server, and an error once it is closed.
type inProcess struct{ server *Server }

func (p inProcess) InProcessConn() (net.Conn, error) {
	if !p.server.nats.Running() {
		return nil, errServerClosed
	}
	return p.server.nats.InProcessConn()
}

// Close closes it.
func (c *Conn) Close() {
	c.nats.Close()
	<-c.closed
}

// MaxPayload is the server's limit in bytes.
func (c *Conn) MaxPayload() int { return int(c.nats.MaxPayload()) }

// Flush waits until the server has taken everything that was sent, or ctx ends.
func (c *Conn) Flush(ctx context.Context) error { return c.nats.FlushWithContext(ctx) }
