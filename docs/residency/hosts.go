//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// printHosts compares a host that has memory for half of the experts with two such hosts, and with one that has room for all. Hosts are
// network namespaces of this machine (deploy/testbed/hosts); each worker has one thread, so that two hosts don't only bring memory
// where this machine has the cores.
func printHosts(ctx context.Context, b *bench, w io.Writer) (err error) {
	script, err := filepath.Abs("deploy/testbed/hosts")
	if err != nil {
		return err
	}
	set := fmt.Sprintf("MOEPOOL_TESTBED=residency-%d", os.Getpid())
	hosts := func(arguments ...string) error {
		cmd := exec.Command(script, arguments...)
		cmd.Env = append(os.Environ(), set)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", script, arguments[0], err, out)
		}
		return nil
	}
	if err := hosts("up", "2"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hosts("down")) }()
	on := func(name string) func([]string) []string {
		return func(argv []string) []string { return append([]string{"env", set, script, "exec", name}, argv...) }
	}
	arena := b.arena + "-hosts"
	if err := os.MkdirAll(arena, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(arena)
	half := b.experts/2 + beside
	one := []host{{name: "h1-node0", within: on("h1")}}
	two := append(one[:1:1], host{name: "h2-node0", within: on("h2")})
	header(w, "hosts", "prefill s", "decode s", "tokens/s", "hits", "MB read a token", "same tokens")
	var first figures
	for i, arm := range []struct {
		name  string
		hosts []host
		limit int64
	}{
		{"one, room for all", one, 0},
		{"one with memory for half", one, half},
		{"two with memory for half each", two, half},
	} {
		// Each packs the experts that it owns first, without a limit.
		o := clusterOptions{hosts: arm.hosts, front: on("switch"), listen: "10.89.0.254:4222", arena: arena, worker: []string{"--threads", "1"}}
		c, err := b.start(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", arm.name, err)
		}
		c.stop()
		o.hosts = append([]host(nil), arm.hosts...)
		for j := range o.hosts {
			o.hosts[j].limit = arm.limit
		}
		f, err := b.measure(ctx, o, "off")
		if err != nil {
			return fmt.Errorf("%s: %w", arm.name, err)
		}
		if i == 0 {
			first = f
		}
		row(w, arm.name, fmt.Sprintf("%.3f", f.prefill), fmt.Sprintf("%.2f", f.decode), fmt.Sprintf("%.1f", f.speed), percent(f.hits), megabytes(f.read), same(first.tokens, f.tokens))
	}
	return nil
}

// beside is what a worker needs beside experts.
const beside = 48 << 20
