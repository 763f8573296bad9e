package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/moepool/moepool/coordinator"
)

// shutdownTimeout is how long HTTP requests may take to end.
const shutdownTimeout = time.Second

// HTTP serves /metrics (Prometheus), /healthz (the process lives) and /readyz (this coordinator answers requests, or stands by for one that leads) on
// address until stop is called.
func HTTP(address string, c *coordinator.Coordinator, m *Metrics) (listening string, stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("--http: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(r.Context(), w, c) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // always http.ErrServerClosed: stop ends it
	}()
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		<-done
	}
	return listener.Addr().String(), stop, nil
}

type readiness struct {
	Ready   bool                     `json:"ready"`
	Workers map[string]string        `json:"workers"` // state by id
	Group   *coordinator.GroupStatus `json:"group,omitempty"`
}

func ready(ctx context.Context, w http.ResponseWriter, c *coordinator.Coordinator) {
	r := readiness{Ready: c.Ready(), Workers: map[string]string{}}
	if members := c.Members(); members != nil {
		for _, b := range members.Workers() {
			r.Workers[b.Worker] = string(b.State)
		}
	}
	r.Group, _ = c.Group(ctx) // without it if raft has ended
	w.Header().Set("Content-Type", "application/json")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(r) // the client went away: nobody to tell
}
