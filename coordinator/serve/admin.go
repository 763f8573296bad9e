package serve

import (
	"context"
	"fmt"

	"github.com/moepool/moepool/coordinator"
	"github.com/moepool/moepool/transport"
)

// DrainRequest asks a worker to leave; its experts move first.
type DrainRequest struct {
	Worker string `json:"worker"`
}

// Accepted is the answer to a command that goes on in the background: Status shows how far it is.
type Accepted struct {
	Epoch uint64 `json:"epoch"` // of the placement that was active before; 0: none
}

// admin carries out a command.
func (s *Server) admin(ctx context.Context, verb string, request []byte) (any, error) {
	members := s.coordinator.Members()
	if members == nil {
		return nil, &coordinator.NotLeadingError{}
	}
	var accepted Accepted
	if plan := members.Plan(); plan != nil {
		accepted.Epoch = plan.Epoch
	}
	switch verb {
	case transport.AdminDrain:
		var q DrainRequest
		if err := transport.DecodeStrictly(request, &q); err != nil {
			return nil, fmt.Errorf("drain: %w; the request is {\"worker\": ID}", err)
		}
		s.o.Log("worker %s is asked to leave by an admin command", q.Worker)
		return accepted, s.coordinator.Drain(ctx, q.Worker)
	case transport.AdminRebalance:
		if err := noRequest(request); err != nil {
			return nil, fmt.Errorf("rebalance: %w", err)
		}
		s.o.Log("the experts are placed anew by an admin command")
		return accepted, members.Rebalance(nil)
	case transport.AdminStatus:
		if err := noRequest(request); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
		return s.status(ctx)
	case transport.AdminPlacement:
		if err := noRequest(request); err != nil {
			return nil, fmt.Errorf("placement: %w", err)
		}
		return s.placement()
	}
	return nil, fmt.Errorf("there is no command %q; there are %q", verb, transport.AdminVerbs)
}

// noRequest checks that a command without parameters brings none.
func noRequest(request []byte) error {
	if len(request) == 0 {
		return nil
	}
	if err := transport.DecodeStrictly(request, &struct{}{}); err != nil {
		return fmt.Errorf("%w; the command takes nothing, or {}", err)
	}
	return nil
}
