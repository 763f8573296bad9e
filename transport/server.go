package transport

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ServerOptions describe the embedded NATS server.
type ServerOptions struct {
	Listen     string                           // host:port; "" is 127.0.0.1 with a free port. Anything but loopback needs Token.
	Token      string                           // "" generates a random one
	MaxPayload int                              // bytes; 0 is 8 MiB
	StoreDir   string                           // folder of JetStream's files, for Objects; "" is no JetStream
	Log        func(format string, args ...any) // the server's warnings and errors; may be nil
}

// Server is an embedded NATS server.
type Server struct {
	nats  *server.Server
	token string
}

const (
	defaultMaxPayload = 8 << 20
	minMaxPayload     = 4 << 10
	startTimeout      = time.Minute // takes milliseconds
	writeDeadline     = 10 * time.Second
	authLimit         = 10 * time.Second // longer than connectAttempt, after which clients try again: they say it, not the server
	// A receiver that is slower than its sender may have this many bytes waiting in the server before it is cut off.
	maxPending = 2 << 30
)

// StartServer starts it and waits until it accepts connections.
func StartServer(o ServerOptions) (*Server, error) {
	host, port, err := listenAddress(o.Listen)
	if err != nil {
		return nil, err
	}
	if o.Token == "" {
		if !loopback(host) {
			return nil, fmt.Errorf("listen %s: other hosts could connect; give a token (--token-file), or listen on 127.0.0.1", o.Listen)
		}
		o.Token = randomHex(32)
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = defaultMaxPayload
	}
	if o.MaxPayload < minMaxPayload || o.MaxPayload > 64<<20 {
		return nil, fmt.Errorf("max payload %d: valid are %d to %d bytes", o.MaxPayload, minMaxPayload, 64<<20)
	}
	s, err := server.NewServer(&server.Options{
		Host: host, Port: port,
		Authorization: o.Token,
		MaxPayload:    int32(o.MaxPayload),
		MaxPending:    maxPending,
		WriteDeadline: writeDeadline,
		AuthTimeout:   authLimit.Seconds(),
		JetStream:     o.StoreDir != "",
		StoreDir:      o.StoreDir,
		NoSigs:        true,
		NoLog:         o.Log == nil,
	})
	if err != nil {
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	log := &serverLog{log: o.Log}
	s.SetLoggerV2(log, false, false, false)
	go s.Start()
	if problem := awaitStart(s.ReadyForConnections, log.fatal); problem != "" {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("NATS server on %s: %s", net.JoinHostPort(host, strconv.Itoa(max(port, 0))), problem)
	}
	return &Server{nats: s, token: o.Token}, nil
}

// awaitStart waits until the server is ready, which it asks for some time at once, or has said what is fatal; it gives what is wrong, "" if
// nothing is. A yes is final: asked again, a server that is ready says no if the question's time passes before it has looked (ReadyForConnections
// looks at the clock first), as happens within a millisecond on a machine with far more to do than CPUs.
func awaitStart(ready func(time.Duration) bool, fatal func() string) (problem string) {
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		if ready(100 * time.Millisecond) {
			return ""
		}
		if problem := fatal(); problem != "" {
			return problem
		}
	}
	return fmt.Sprintf("not ready within %s", startTimeout)
}

// URL is nats://host:port, without the token.
func (s *Server) URL() string { return "nats://" + s.nats.Addr().String() }

// Token is what clients must present.
func (s *Server) Token() string { return s.token }

// Close stops the server and waits for it.
func (s *Server) Close() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// listenAddress gives host and port of host:port; port -1 is a free one.
func listenAddress(listen string) (host string, port int, err error) {
	if listen == "" {
		return "127.0.0.1", -1, nil
	}
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen %q: host:port expected, such as 127.0.0.1:4222: %w", listen, err)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen %q: %q is no port; valid are 0 (a free one) to 65535", listen, text)
	}
	if port == 0 {
		port = -1
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return host, port, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// randomHex gives n random bytes in hex.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

var errServerClosed = errors.New("the embedded NATS server is closed")
