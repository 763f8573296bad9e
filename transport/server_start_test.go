package transport

import (
	"testing"
	"time"
)

// TestAwaitStart: a server that has said once that it is ready is ready, and what is fatal ends the wait. A server's answers are no after its
// question's time, however ready it is.
func TestAwaitStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []bool
		fatal   []string
		want    string
	}{
		"at once":               {[]bool{true}, nil, ""},
		"later":                 {[]bool{false, false, true}, []string{"", ""}, ""},
		"fatal":                 {[]bool{false, false}, []string{"", "the port is taken"}, "the port is taken"},
		"ready before it fails": {[]bool{true}, []string{"the port is taken"}, ""},
	} {
		asked, looked := 0, 0
		ready := func(time.Duration) bool { asked++; return asked <= len(c.answers) && c.answers[asked-1] }
		fatal := func() string { looked++; return c.fatal[looked-1] }
		if problem := awaitStart(ready, fatal); problem != c.want || asked != len(c.answers) {
			t.Errorf("%s: %q after %d questions, want %q after %d", name, problem, asked, c.want, len(c.answers))
		}
	}
}
