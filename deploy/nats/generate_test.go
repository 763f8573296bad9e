package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func options(dir string) Options {
	return Options{
		Dir: dir, Cluster: "c", Hosts: []string{"127.0.0.1", "nats.example"}, Coordinators: []string{"main"}, Clients: []string{"main", "second"},
		Admins: []string{"main"}, Workers: []Worker{{"left", []string{"left-0", "left-1"}}, {"right", []string{"right-0"}}},
	}
}

// contents reads all files below a folder, and checks that nobody else can read keys.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(data)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s may be read by others: %v", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestGenerateAgain: a second run changes nothing; a worker more adds its key and entry, a worker less loses its entry; other hosts get new
// certificates of the same CAs.
func TestGenerateAgain(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	generate := func() map[string]string {
		t.Helper()
		if err := Generate(o); err != nil {
			t.Fatal(err)
		}
		return contents(t, o.Dir)
	}
	first, second := generate(), generate()
	for name, text := range second {
		if first[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
	changed := func(from, to map[string]string) (names []string) {
		for name, text := range to {
			if from[name] != text {
				names = append(names, name)
			}
		}
		return names
	}
	o.Workers = append(o.Workers, Worker{"new", []string{"new-0"}})
	third := generate()
	if n := changed(first, third); len(n) != 2 || third["keys/worker-new.nk"] == "" || !strings.Contains(third["server/users.conf"], "moe.c.work.new-0") {
		t.Errorf("a new worker changes %v", n)
	}
	o.Workers = o.Workers[1:]
	if users := generate()["server/users.conf"]; strings.Contains(users, "left-") || !strings.Contains(users, "right-0") {
		t.Error("a worker that is not named any more keeps its entry")
	}
	before := contents(t, o.Dir)
	o.Hosts = append(o.Hosts, "third.example")
	after := generate()
	for name, same := range map[string]bool{
		"authority/ca.pem": true, "authority/route-ca-key.pem": true, "ca.pem": true, "keys/worker-right.nk": true, "server/users.conf": true,
		"server/tls/server.pem": false, "server/tls/route-key.pem": false, "server/cluster.conf": false,
	} {
		if (before[name] == after[name]) != same {
			t.Errorf("%s is the same: want %v", name, same)
		}
	}
	for name, text := range after {
		if strings.HasPrefix(name, "server/") && strings.Contains(text, "SU") && strings.Contains(text, strings.TrimSpace(after["keys/worker-right.nk"])) {
			t.Errorf("%s holds a seed", name)
		}
	}
}

func TestGenerateErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Options)
		words  string
	}{
		"no folder":     {func(o *Options) { o.Dir = "" }, "folder"},
		"no host":       {func(o *Options) { o.Hosts = nil }, "host"},
		"port":          {func(o *Options) { o.Hosts = []string{"a:4222"} }, "without a port"},
		"cluster":       {func(o *Options) { o.Cluster = "a.b" }, "a.b"},
		"name":          {func(o *Options) { o.Clients = []string{"../x"} }, "../x"},
		"twice":         {func(o *Options) { o.Admins = []string{"a", "a"} }, "different"},
		"an id twice":   {func(o *Options) { o.Workers[1].IDs = []string{"left-1"} }, "left-1"},
		"no worker ids": {func(o *Options) { o.Workers[1].IDs = nil }, "0 worker ids"},
	} {
		o := options(t.TempDir())
		c.change(&o)
		if err := Generate(o); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := options(t.TempDir())
	if err := Generate(o); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"keys/client-main.nk", "authority/ca-key.pem", "server/tls/server.pem"} {
		path := filepath.Join(o.Dir, file)
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Generate(o); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s is garbage: %v", file, err)
		}
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseWorker(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a=x,y": "a x y", "x,y": "x x y", "x": "x x", "": "", "a=": "", "=x": "", "a=x,,y": "", "a=x.y": "",
	} {
		w, err := ParseWorker(text)
		if got := strings.Join(append([]string{w.Name}, w.IDs...), " "); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
