package flags

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"worker --all-nodes --nats=nats://a:4222": "",
		"worker --node 0 --id w":                  "",
		"run --nats nats://a:4222 hello":          "",
		"worker --no-such-flag":                   "no flag --no-such-flag",
		"worker --all-nodes extra":                "belongs to no flag",
		"worker --node":                           "needs a value",
		"nosuchcommand --node 1":                  "nosuchcommand",
	} {
		err := Check(strings.Fields(line))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
}

func TestCheckVariable(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"MOEPOOL_ARENA_DIR": true, "MOEPOOL_NATS_TOKEN": true, "XDG_CACHE_HOME": true, "MOEPOOL_AREANA_DIR": false, "MOEPOOL_WORKERS": false,
	} {
		if err := CheckVariable("worker", name); (err == nil) != want {
			t.Errorf("%s for a worker: %v", name, err)
		}
	}
}
