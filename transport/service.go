package transport

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"
)

// ServiceName is what `nats micro ls` shows.
const ServiceName = "moepool"

// ServiceOptions describe what a coordinator serves on NATS.
type ServiceOptions struct {
	Cluster  string
	Build    string            // version of the binary
	Instance string            // random, of the coordinator's process
	Metadata map[string]string // shown by `nats micro info`, beside the cluster, the instance and the build
	Admin    AdminFunc         // nil: not served
}

// Service is a coordinator's admin and generate endpoints: a NATS micro service, which NATS' own tools find and describe.
type Service struct {
	conn  *Conn
	o     ServiceOptions
	micro micro.Service

	mu       sync.Mutex
	generate *generateServer // nil before Generate
	stops    []func()
	stopped  bool
}

// Serve answers the cluster's admin commands until Stop, and requests from Generate on. Requests are not shared between several
// coordinators of a cluster: each answers, and the client takes the first. (Only a leader serves, so there are two for moments only; but
// one that hangs must not take a request away from the other one.)
func Serve(c *Conn, o ServiceOptions) (*Service, error) {
	if err := checkName("cluster name", o.Cluster); err != nil {
		return nil, err
	}
	s := &Service{conn: c, o: o}
	metadata := map[string]string{"cluster": o.Cluster, "instance": o.Instance, "build": o.Build, "protocol": fmt.Sprint(ProtocolVersion)}
	for key, value := range o.Metadata {
		metadata[key] = value
	}
	var err error
	s.micro, err = micro.AddService(c.nats, micro.Config{
		Name: ServiceName, Version: semanticVersion(o.Build), Metadata: metadata, QueueGroupDisabled: true,
		Description:  "text of a mixture-of-experts model; clients: moepool run --nats, moepool status",
		StatsHandler: s.stats,
	})
	if err != nil {
		return nil, fmt.Errorf("NATS service: %w", err)
	}
	if o.Admin == nil {
		return s, nil
	}
	admin := newAdminServer(o.Cluster, o.Admin)
	s.stops = append(s.stops, admin.stop)
	for _, verb := range AdminVerbs {
		handle := micro.HandlerFunc(func(r micro.Request) { admin.arrived(verb, r) })
		if err := s.micro.AddEndpoint(verb, handle, micro.WithEndpointSubject(adminSubject(o.Cluster, verb))); err != nil {
			s.Stop()
			return nil, fmt.Errorf("subscribe to %s: %w", adminSubject(o.Cluster, verb), err)
		}
	}
	return s, nil
}

// subscribeLimit is how long Generate waits for the server to know what it subscribed to.
const subscribeLimit = 5 * time.Second

// Generate answers requests from now on; it is called once.
func (s *Service) Generate(serve GenerateFunc) error {
	g := newGenerateServer(s.conn, s.o.Cluster, s.o.Instance, serve)
	if err := s.begin(g); err != nil {
		return err
	}
	err := s.micro.AddEndpoint("generate", micro.HandlerFunc(func(r micro.Request) { g.arrived(r.Reply(), r.Data()) }),
		micro.WithEndpointSubject(generateSubject(s.o.Cluster)), micro.WithEndpointPendingLimits(receiveCapacity, maxAssembly),
		micro.WithEndpointMetadata(map[string]string{"frames": "moepool's own, in msgpack: use moepool run --nats"}))
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", generateSubject(s.o.Cluster), err)
	}
	// Whoever hears that the service answers must find it. Without a connection it is subscribed with the next one.
	_ = s.conn.nats.FlushTimeout(subscribeLimit)
	return nil
}

// begin starts a generate server that Stop will end.
func (s *Service) begin(g *generateServer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.generate != nil {
		return errors.New("the service has ended, or answers requests already")
	}
	stop, err := g.start()
	if err != nil {
		return err
	}
	s.stops = append(s.stops, stop)
	s.generate = g
	return nil
}

// Stop ends the service; answers in progress end with an error that lets their clients go on elsewhere. It waits for them.
func (s *Service) Stop() {
	s.mu.Lock()
	stops := s.stops
	s.stops, s.stopped = nil, true
	s.mu.Unlock()
	_ = s.micro.Stop() // fails only on a closed connection
	for _, stop := range stops {
		stop()
	}
}

// Counters are those of the generate endpoint.
func (s *Service) Counters() GenerateCounters {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generate == nil {
		return GenerateCounters{}
	}
	return s.generate.counters()
}

// stats is what `nats micro stats` shows of an endpoint besides NATS' own counters.
func (s *Service) stats(e *micro.Endpoint) any {
	if e.Name != "generate" {
		return nil
	}
	return s.Counters()
}

// semantic is semver.org's own pattern, as package micro demands it.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-((0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?$`)

// semanticVersion is a build's version in the form that NATS demands of services: what isn't one becomes 0.0.0-build-WHAT. The build
// itself is in the metadata.
func semanticVersion(build string) string {
	if v := strings.TrimPrefix(build, "v"); semantic.MatchString(v) {
		return v
	}
	return "0.0.0-build-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, build)
}
