package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// TLSFiles name PEM files: the group's own certificate authority, and this coordinator's certificate and key from it.
type TLSFiles struct{ CA, Cert, Key string }

// configs gives the TLS configurations for both directions. The certificate is read again for each connection, so that it can be renewed
// while the coordinator runs.
func (f TLSFiles) configs() (server, client *tls.Config, err error) {
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("the group's CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("the group's CA: %s holds no PEM certificate", f.CA)
	}
	if _, err := f.certificate(); err != nil {
		return nil, nil, err
	}
	server = &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.certificate() },
	}
	client = &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.certificate() },
	}
	return server, client, nil
}

func (f TLSFiles) certificate() (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("this coordinator's certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	return &c, nil
}

const (
	handshakeLimit = 5 * time.Second
	maxHandshakes  = 64 // at once: who doesn't finish can't take more
	refusalPause   = time.Second
)

// dialer makes the TCP connections of a stream layer.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// streams is raft's network: TLS connections whose both ends have proved that they belong to the group. It implements raft.StreamLayer.
type streams struct {
	listener  net.Listener
	advertise streamAddress
	server    *tls.Config
	client    *tls.Config
	dial      dialer
	log       func(format string, args ...any)

	accepted   chan net.Conn
	handshakes chan struct{}
	ctx        context.Context
	cancel     context.CancelFunc
	done       sync.WaitGroup

	mu       sync.Mutex
	open     map[net.Conn]struct{}
	closed   bool
	refusals int // that were not logged
	lastSaid time.Time
}

// streamAddress is host:port as other coordinators reach it.
type streamAddress string

func (streamAddress) Network() string  { return "tcp" }
func (a streamAddress) String() string { return string(a) }

func listen(address, advertise string, files TLSFiles, dial dialer, log func(string, ...any)) (*streams, error) {
	server, client, err := files.configs()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &streams{listener: listener, advertise: streamAddress(advertise), server: server, client: client, dial: dial, log: log,
		accepted: make(chan net.Conn), handshakes: make(chan struct{}, maxHandshakes), open: map[net.Conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.done.Add(1)
	go s.run()
	return s, nil
}

// run is the goroutine that takes connections.
func (s *streams) run() {
	defer s.done.Done()
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.refused("no connection could be taken: %v", err)
			select {
			case <-time.After(refusalPause):
			case <-s.ctx.Done():
			}
			continue
		}
		select {
		case s.handshakes <- struct{}{}:
		default:
			s.refused("%s: %d other connections have not proved who they are yet", conn.RemoteAddr(), maxHandshakes)
			conn.Close()
			continue
		}
		s.done.Add(1)
		go func() {
			defer s.done.Done()
			s.greet(conn)
		}()
	}
}

// greet lets a peer prove that it belongs to the group, then hands the connection to raft.
func (s *streams) greet(conn net.Conn) {
	secure := tls.Server(conn, s.server)
	ctx, cancel := context.WithTimeout(s.ctx, handshakeLimit)
	err := secure.HandshakeContext(ctx)
	cancel()
	<-s.handshakes
	if err != nil {
		s.refused("%s: %v", conn.RemoteAddr(), err)
		conn.Close()
		return
	}
	tracked, err := s.track(secure)
	if err != nil {
		return
	}
	select {
	case s.accepted <- tracked:
	case <-s.ctx.Done():
		tracked.Close()
	}
}

// refused logs at most once in a while: strangers must not fill the log.
func (s *streams) refused(format string, args ...any) {
	s.mu.Lock()
	more := s.refusals
	if time.Since(s.lastSaid) < refusalPause {
		s.refusals++
		s.mu.Unlock()
		return
	}
	s.refusals, s.lastSaid = 0, time.Now()
	s.mu.Unlock()
	text := ""
	if more > 0 {
		text = fmt.Sprintf(" (and %d more before)", more)
	}
	s.log("a connection to the coordinators' port was refused: "+format+"%s", append(args, text)...)
}

// Dial implements raft.StreamLayer.
func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	host, _, err := net.SplitHostPort(string(address))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	conn, err := s.dial(ctx, "tcp", string(address))
	if err != nil {
		return nil, err
	}
	config := s.client.Clone()
	config.ServerName = host
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("coordinator at %s: %w", address, err)
	}
	return s.track(secure)
}

// Accept implements net.Listener.
func (s *streams) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener: how others reach it.
func (s *streams) Addr() net.Addr { return s.advertise }

// Close ends all connections, since raft leaves its own open, and waits for everything here.
func (s *streams) Close() error {
	s.cancel()
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.open {
		conn.Close() // not its wrapper, which would want the lock
	}
	s.mu.Unlock()
	s.done.Wait()
	return err
}

// track notes a connection, to be closed in the end.
func (s *streams) track(conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	s.open[conn] = struct{}{}
	return &trackedConn{conn, s}, nil
}

type trackedConn struct {
	net.Conn
	streams *streams
}

func (c *trackedConn) Close() error {
	c.streams.mu.Lock()
	delete(c.streams.open, c.Conn)
	c.streams.mu.Unlock()
	return c.Conn.Close()
}
