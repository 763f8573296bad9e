package nats

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/moepool/moepool/transport"
)

// users is users.conf: an entry for each key with the subjects that it may use. Missing keys are made.
func (o *Options) users() ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# The keys of cluster %q, made by deploy/nats/generate. Only public keys are in this file.\nusers: [\n", o.Cluster)
	add := func(role transport.Role, name string, ids ...string) error {
		public, err := userKey(filepath.Join(o.Dir, "keys", string(role)+"-"+name+".nk"))
		if err != nil {
			return err
		}
		p, err := transport.PermissionsOf(role, o.Cluster, public, ids...)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "  { # %s %s\n    nkey: %s\n    permissions: {\n", role, name, public)
		for _, list := range []struct {
			what     string
			subjects []string
		}{{"publish", p.Publish}, {"subscribe", p.Subscribe}} {
			fmt.Fprintf(&b, "      %s: [\n", list.what)
			for _, s := range list.subjects {
				fmt.Fprintf(&b, "        %q\n", s)
			}
			b.WriteString("      ]\n")
		}
		b.WriteString("    }\n  }\n")
		return nil
	}
	for _, role := range []struct {
		role  transport.Role
		names []string
	}{{transport.RoleCoordinator, o.Coordinators}, {transport.RoleClient, o.Clients}, {transport.RoleAdmin, o.Admins}} {
		for _, name := range role.names {
			if err := add(role.role, name); err != nil {
				return nil, err
			}
		}
	}
	for _, w := range o.Workers {
		if err := add(transport.RoleWorker, w.Name, w.IDs...); err != nil {
			return nil, err
		}
	}
	b.WriteString("]\n")
	return []byte(b.String()), nil
}

// userKey gives the public key of a seed file, which is made if it doesn't exist.
func userKey(file string) (string, error) {
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return newUserKey(file)
	}
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(data)
	if err != nil {
		return "", fmt.Errorf("%s holds no nkey seed of a user: %w", file, err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

func newUserKey(file string) (string, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, append(seed, '\n'), 0o600); err != nil {
		return "", err
	}
	return pair.PublicKey()
}
