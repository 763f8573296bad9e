package testbed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// finish waits for a client's end, which comes within limit.
func finish(cmd *exec.Cmd, limit time.Duration) error {
	late := time.AfterFunc(limit, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	err := cmd.Wait()
	if !late.Stop() {
		return fmt.Errorf("%v: no end within %v", cmd.Args, limit)
	}
	return err
}

// run reads the JSON that a client prints at its end.
func run(cmd *exec.Cmd, limit time.Duration) (*Answer, error) {
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := finish(cmd, limit)
	a := &Answer{Took: time.Since(begin)}
	if wrong := json.Unmarshal(out.Bytes(), a); wrong != nil {
		return nil, fmt.Errorf("%v: %w (%v): %s%s", cmd.Args, wrong, err, out.Bytes(), problem.Bytes())
	}
	if err != nil {
		return a, fmt.Errorf("%v: %w: %s", cmd.Args, err, problem.Bytes())
	}
	return a, nil
}

// pieces takes a client's text as it comes.
type pieces struct {
	text    strings.Builder
	last    time.Time
	silence time.Duration
}

func (p *pieces) Write(b []byte) (int, error) {
	now := time.Now()
	if !p.last.IsZero() {
		p.silence = max(p.silence, now.Sub(p.last))
	}
	p.last = now
	return p.text.Write(b)
}

// stream reads the text that a client prints while it comes.
func stream(cmd *exec.Cmd, limit time.Duration) (*Answer, error) {
	var problem bytes.Buffer
	out := &pieces{}
	cmd.Stdout, cmd.Stderr = out, &problem
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := finish(cmd, limit); err != nil {
		return nil, fmt.Errorf("%v: %w: %s%s", cmd.Args, err, out.text.String(), problem.Bytes())
	}
	return &Answer{Text: strings.TrimSuffix(out.text.String(), "\n"), Took: time.Since(begin), Silence: out.silence}, nil
}
