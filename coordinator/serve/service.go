package serve

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/coordinator/engine"
	"github.com/moepool/moepool/transport"
)

// Options describe what a coordinator serves.
type Options struct {
	Cluster      string
	Version      string // of this build
	Leader       string // id of this coordinator in its group; "" if it is alone
	PrefillChunk int
	Metrics      *Metrics
	Log          func(format string, args ...any)
}

// Server answers on NATS for one coordinator.
type Server struct {
	coordinator *coordinator.Coordinator
	o           Options
	started     time.Time
	service     *transport.Service
	engine      atomic.Pointer[engine.Engine] // once it answers requests
}

// New answers admin commands on NATS until Stop, and requests from Generate on, as a service that `nats micro ls` finds. The coordinator
// leads meanwhile: a service is started with each leadership, and stopped with it.
func New(c *coordinator.Coordinator, o Options) (*Server, error) {
	s := &Server{coordinator: c, o: o, started: time.Now()}
	begun := make(chan struct{})
	defer close(begun)
	var err error
	s.service, err = transport.Serve(c.Conn, transport.ServiceOptions{
		Cluster: o.Cluster, Build: o.Version, Instance: nuid.Next(), Metadata: metadata(c, o.Leader),
		Admin: func(ctx context.Context, verb string, request []byte) (any, error) {
			select {
			case <-begun:
				return s.admin(ctx, verb, request)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Generate answers requests from now on; failed ones are logged. The coordinator is ready.
func (s *Server) Generate() error {
	s.engine.Store(s.coordinator.Engine)
	return s.service.Generate(s.generate)
}

// Stop ends all of it.
func (s *Server) Stop() { s.service.Stop() }

// metadata is what `nats micro info` shows of a coordinator.
func metadata(c *coordinator.Coordinator, leader string) map[string]string {
	return map[string]string{
		"leader": leader, "model_digest": c.Identity.ModelDigest, "model_family": c.Checkpoint.Config().Family,
		"format": c.Identity.Format, "parts": fmt.Sprint(c.Identity.Parts), "context": fmt.Sprint(c.Context()),
	}
}
