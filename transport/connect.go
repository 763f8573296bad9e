package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectOptions say how to reach NATS.
type ConnectOptions struct {
	URL                       string  // one URL or a comma-separated list
	Server                    *Server // not nil: in-process connection to it, URL and Token are ignored
	Token                     string
	Credentials               string                           // .creds file
	NKey                      string                           // nkey seed file
	CAFile, CertFile, KeyFile string                           // TLS
	Name                      string                           // shown by the server's monitoring
	Log                       func(format string, args ...any) // reconnects and the like; may be nil
}

// Conn is a connection that reconnects for ever and never replays buffered messages.
type Conn struct {
	nats   *nats.Conn
	closed chan struct{}
}

const (
	connectAttempt = 2 * time.Second
	connectRetry   = 250 * time.Millisecond
)

// Connect waits until connected or ctx ends; the error names the URL and what failed. Log is told once
// that it has to wait.
func Connect(ctx context.Context, o ConnectOptions) (*Conn, error) {
	c := &Conn{closed: make(chan struct{})}
	options, err := o.options(c)
	if err != nil {
		return nil, err
	}
	where := o.URL
	if o.Server != nil {
		where = "the embedded server"
	} else if where == "" {
		return nil, errors.New("no NATS URL given (--nats nats://host:4222)")
	}
	for said := false; ; {
		c.nats, err = nats.Connect(o.URL, options...)
		if err == nil {
			return c, nil
		}
		if permanent(err) {
			return nil, fmt.Errorf("connect to NATS at %s: %w", where, err)
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
		errors.Is(err, nats.ErrNkeysNotSupported) || errors.Is(err, nats.ErrSecureConnRequired)
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
		nats.IgnoreAuthErrorAbort(), // a server that was restarted with another token may come back with the right one
		nats.ReconnectBufSize(-1),   // stale work must not be replayed
		nats.PingInterval(SilenceLimit),
		nats.MaxPingsOutstanding(2),
		nats.SkipSubjectValidation(), // subjects are our own, names in them are checked by ValidName
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.DisconnectErrHandler(func(n *nats.Conn, err error) {
			if err != nil {
				say("NATS: connection lost: %v", err)
			}
		}),
		nats.ReconnectHandler(func(n *nats.Conn) { say("NATS: connected again to %s", n.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if s != nil {
				dropped, _ := s.Dropped()
				say("NATS: %s: %v (%d messages lost)", s.Subject, err, dropped)
			} else {
				say("NATS: %v", err)
			}
		}),
	}
	if o.Server != nil {
		return append(options, nats.InProcessServer(inProcess{o.Server}), nats.Token(o.Server.token)), nil
	}
	if o.Token != "" {
		options = append(options, nats.Token(o.Token))
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey seed file %s: %w", o.NKey, err)
		}
		options = append(options, key)
	}
	if o.CAFile != "" {
		options = append(options, nats.RootCAs(o.CAFile))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, fmt.Errorf("TLS client certificate: both files are needed, given were certificate %q and key %q", o.CertFile, o.KeyFile)
	}
	if o.CertFile != "" {
		options = append(options, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	return options, nil
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
