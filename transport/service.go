package transport

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

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
	Generate GenerateFunc
	Admin    AdminFunc // nil: not served
}

// Service is a coordinator's generate and admin endpoints: a NATS micro service, which NATS' own tools find and describe.
type Service struct {
	generate *generateServer
	admin    *adminServer // nil: not served
	stop     func()
}

// Serve answers the cluster's requests until Stop. Requests are not shared between several coordinators of a cluster: each answers, and
// the client takes the first. (Only a leader serves, so there are two for moments only; but one that hangs must not take a request away
// from the other one.)
func Serve(c *Conn, o ServiceOptions) (_ *Service, err error) {
	switch {
	case !ValidName(o.Cluster):
		return nil, fmt.Errorf("cluster name %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", o.Cluster)
	case o.Generate == nil:
		return nil, errors.New("a service needs a function that generates")
	}
	s := &Service{generate: newGenerateServer(c, o.Cluster, o.Instance, o.Generate)}
	metadata := map[string]string{"cluster": o.Cluster, "instance": o.Instance, "build": o.Build, "protocol": fmt.Sprint(ProtocolVersion)}
	for key, value := range o.Metadata {
		metadata[key] = value
	}
	m, err := micro.AddService(c.nats, micro.Config{
		Name: ServiceName, Version: semanticVersion(o.Build), Metadata: metadata, QueueGroupDisabled: true,
		Description:  "text of a mixture-of-experts model; clients: moepool run --nats, moepool status",
		StatsHandler: s.stats,
	})
	if err != nil {
		return nil, fmt.Errorf("NATS service: %w", err)
	}
	var stops []func()
	s.stop = sync.OnceFunc(func() {
		_ = m.Stop() // fails only on a closed connection
		for _, stop := range stops {
			stop()
		}
	})
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	stop, err := s.generate.start()
	if err != nil {
		return nil, err
	}
	stops = append(stops, stop)
	pending := micro.WithEndpointPendingLimits(receiveCapacity, maxAssembly)
	handle := micro.HandlerFunc(func(r micro.Request) { s.generate.arrived(r.Reply(), r.Data()) })
	if err := m.AddEndpoint("generate", handle, micro.WithEndpointSubject(generateSubject(o.Cluster)), pending,
		micro.WithEndpointMetadata(map[string]string{"frames": "msgpack, moepool's own; use moepool run --nats"})); err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", generateSubject(o.Cluster), err)
	}
	if o.Admin == nil {
		return s, nil
	}
	s.admin = newAdminServer(o.Cluster, o.Admin)
	stops = append(stops, s.admin.stop)
	for _, verb := range AdminVerbs {
		handle := micro.HandlerFunc(func(r micro.Request) { s.admin.arrived(verb, r) })
		if err := m.AddEndpoint(verb, handle, micro.WithEndpointSubject(adminSubject(o.Cluster, verb))); err != nil {
			return nil, fmt.Errorf("subscribe to %s: %w", adminSubject(o.Cluster, verb), err)
		}
	}
	return s, nil
}

// Stop ends the service; answers in progress end with an error that lets their clients go on elsewhere. It waits for them.
func (s *Service) Stop() { s.stop() }

// Counters are those of the generate endpoint.
func (s *Service) Counters() GenerateCounters { return s.generate.counters() }

// stats is what `nats micro stats` shows of an endpoint besides NATS' own counters.
func (s *Service) stats(e *micro.Endpoint) any {
	if e.Name != "generate" {
		return nil
	}
	return s.generate.counters()
}

// ServeGenerate is Serve without admin commands.
func ServeGenerate(c *Conn, cluster string, serve GenerateFunc) (stop func(), err error) {
	s, err := Serve(c, ServiceOptions{Cluster: cluster, Instance: randomHex(8), Generate: serve})
	if err != nil {
		return nil, err
	}
	return s.Stop, nil
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
