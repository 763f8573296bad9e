package transport

import "context"

// ProtocolVersion is the version of every message; both sides refuse another one, naming both.
const ProtocolVersion = 1

// ServerOptions describe the embedded NATS server.
type ServerOptions struct {
	Listen     string // host:port; "" is 127.0.0.1 with a free port. Anything but loopback needs Token.
	Token      string // "" generates a random one
	MaxPayload int    // bytes; 0 is 8 MiB
}

// Server is an embedded NATS server.
type Server struct{}

// StartServer starts it and waits until it accepts connections.
func StartServer(o ServerOptions) (*Server, error) { panic("skeleton") }

// URL is nats://host:port, without the token.
func (s *Server) URL() string { panic("skeleton") }

// Token is what clients must present.
func (s *Server) Token() string { panic("skeleton") }

// Close stops the server and waits for it.
func (s *Server) Close() { panic("skeleton") }

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
type Conn struct{}

// Connect waits until connected or ctx ends; the error names the URL and what failed.
func Connect(ctx context.Context, o ConnectOptions) (*Conn, error) { panic("skeleton") }

// Close closes it.
func (c *Conn) Close() { panic("skeleton") }

// MaxPayload is the server's limit in bytes.
func (c *Conn) MaxPayload() int { panic("skeleton") }

// DefaultCluster is the name in subjects when none is given.
const DefaultCluster = "default"

// ValidName says whether a worker id or cluster name matches [A-Za-z0-9_-]+ and is at most 64 long.
func ValidName(s string) bool { panic("skeleton") }
