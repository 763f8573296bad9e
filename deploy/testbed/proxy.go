package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy stands between hosts, on the switch.
type Proxy struct {
	proxy    *toxiproxy.Proxy
	upstream string
	delay    time.Duration
}

// StartProxy listens on a free port of the switch and passes connections on to upstream.
func StartProxy(name, upstream string) (*Proxy, error) {
	register()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{proxy: toxiproxy.NewProxy(server, name, "10.89.0.254:0", upstream), upstream: upstream}
	if err := p.proxy.Start(); err != nil {
		return nil, fmt.Errorf("proxy %s: %w", name, err)
	}
	return p, nil
}

// Address is where it listens.
func (p *Proxy) Address() string { return p.proxy.Listen }

// Delay delays what passes in each direction; 0 removes the delay.
func (p *Proxy) Delay(d time.Duration) error {
	if d == p.delay {
		return nil // toxiproxy takes 5 s for each piece of a connection that has ended when a toxic is removed
	}
	p.delay = d
	if err := p.remove("delay"); err != nil || d == 0 {
		return err
	}
	return p.add("delay", "delay", fmt.Sprintf(`{"nanoseconds": %d}`, d.Nanoseconds()))
}

// Stall stops all bytes in both directions, or lets them go on.
func (p *Proxy) Stall(on bool) error {
	if !on {
		return p.remove("stall")
	}
	return p.add("stall", "stall", "{}")
}

// Reset ends the present connections with a TCP reset at the next byte; new ones are taken again.
func (p *Proxy) Reset() error {
	if err := p.add("reset", "reset_peer", `{"timeout": 0}`); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond) // each connection carries a byte in that time: workers beat, and a generation is under way
	return p.remove("reset")
}

// add adds a toxic of a kind to both directions.
func (p *Proxy) add(name, kind, attributes string) error {
	for _, stream := range []string{"upstream", "downstream"} {
		text := fmt.Sprintf(`{"name": "%s-%s", "type": %q, "stream": %q, "toxicity": 1, "attributes": %s}`, name, stream, kind, stream, attributes)
		if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
			return fmt.Errorf("proxy %s: %s: %w", p.proxy.Name, kind, err)
		}
	}
	return nil
}

func (p *Proxy) remove(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, stream := range []string{"upstream", "downstream"} {
		if p.proxy.Toxics.GetToxic(name+"-"+stream) == nil {
			continue
		}
		if err := p.proxy.Toxics.RemoveToxic(ctx, name+"-"+stream); err != nil {
			return fmt.Errorf("proxy %s: %s: %w", p.proxy.Name, name, err)
		}
	}
	return nil
}

// Close ends it and its connections.
func (p *Proxy) Close() { p.proxy.Stop() }
