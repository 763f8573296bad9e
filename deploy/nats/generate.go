package nats

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moepool/moepool/internal/wholefile"
	"github.com/moepool/moepool/transport"
)

//go:embed nats.conf
var configuration []byte

// Options say for whom configuration is made.
type Options struct {
	Dir          string
	Cluster      string
	Hosts        []string // names or addresses of the servers, as clients and other servers write them
	Coordinators []string // names of keys
	Workers      []Worker
	Clients      []string
	Admins       []string
}

// Worker is a key and the worker ids that its holder may use, usually those of one host.
type Worker struct {
	Name string
	IDs  []string
}

// ParseWorker reads NAME=ID[,ID...], or ID[,ID...]: then the first id is the name.
func ParseWorker(text string) (Worker, error) {
	name, list, named := strings.Cut(text, "=")
	if !named {
		list = name
	}
	w := Worker{Name: name, IDs: strings.Split(list, ",")}
	if !named {
		w.Name = w.IDs[0]
	}
	for _, s := range append([]string{w.Name}, w.IDs...) {
		if !transport.ValidName(s) {
			return w, fmt.Errorf("worker %q: NAME=ID,ID or ID,ID is expected, each of 1 to 64 of A-Z a-z 0-9 _ -", text)
		}
	}
	return w, nil
}

// Generate writes, in Dir:
//
//	server/     all that a NATS server needs: nats.conf, users.conf, cluster.conf, tls/
//	keys/       the seed of each key, to be given to its holder only (--nats-nkey)
//	ca.pem      for everybody who connects (--nats-ca)
//	authority/  the keys of the two CAs, one for clients and one for routes: to be kept, and given to nobody
//
// What exists is kept: keys and CAs always, certificates while they name the same hosts and are valid for another 30 days. users.conf,
// cluster.conf and nats.conf are written anew from o, so that whoever is not named any more is locked out once the servers have read them.
func Generate(o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	for _, dir := range []string{"server/tls", "keys", "authority"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	users, err := o.users()
	if err != nil {
		return err
	}
	if err := o.certificates(); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"nats.conf": configuration, "users.conf": users, "cluster.conf": o.routes()} {
		if err := replaceFile(filepath.Join(o.Dir, "server", name), content); err != nil {
			return err
		}
	}
	return nil
}

func (o *Options) validate() error {
	if o.Dir == "" {
		return errors.New("no folder given")
	}
	if !transport.ValidName(o.Cluster) {
		return fmt.Errorf("cluster %q: valid are 1 to 64 of A-Z a-z 0-9 _ -", o.Cluster)
	}
	if len(o.Hosts) == 0 {
		return errors.New("no host given: the names under which the NATS servers are reached")
	}
	for _, h := range o.Hosts {
		if h == "" || net.ParseIP(h) == nil && strings.ContainsAny(h, ":/ \"'") {
			return fmt.Errorf("host %q: a name or an address is expected, without a port", h)
		}
	}
	names, ids := map[string]bool{}, map[string]string{}
	once := func(role transport.Role, list []string) error {
		for _, n := range list {
			name := string(role) + "-" + n
			if !transport.ValidName(name) || names[name] {
				return fmt.Errorf("%s %q: valid are different names of A-Z a-z 0-9 _ -", role, n)
			}
			names[name] = true
		}
		return nil
	}
	var workers []string
	for _, w := range o.Workers {
		workers = append(workers, w.Name)
		for _, id := range w.IDs {
			if other, taken := ids[id]; taken {
				return fmt.Errorf("worker id %s: both %s and %s would hold it", id, other, w.Name)
			}
			ids[id] = w.Name
		}
	}
	return errors.Join(once(transport.RoleCoordinator, o.Coordinators), once(transport.RoleWorker, workers),
		once(transport.RoleClient, o.Clients), once(transport.RoleAdmin, o.Admins))
}

// routes is cluster.conf.
func (o *Options) routes() []byte {
	if len(o.Hosts) == 1 {
		return []byte("# One server: no routes.\n")
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Both ends of a route show a certificate of the routes' own CA. A server's route to itself is found out and dropped.
cluster {
  name: moepool
  port: %d
  tls {
    ca_file: "tls/route-ca.pem"
    cert_file: "tls/route.pem"
    key_file: "tls/route-key.pem"
    verify: true
    timeout: 5
  }
  routes: [
`, routePort)
	for _, h := range o.Hosts {
		fmt.Fprintf(&b, "    \"tls://%s\"\n", net.JoinHostPort(h, fmt.Sprint(routePort)))
	}
	b.WriteString("  ]\n}\n")
	return []byte(b.String())
}

const routePort = 6222

// replaceFile writes a file that a server may be reading, if it changes.
func replaceFile(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && slices.Equal(old, content) {
		return nil
	}
	return wholefile.Write(path, content)
}
