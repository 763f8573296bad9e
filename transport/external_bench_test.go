package transport

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// BenchmarkExternal is a round trip of work over a nats-server of its own, TCP on both sides: what TLS, and keys with permissions, cost.
func BenchmarkExternal(b *testing.B) {
	for _, security := range []string{"none", "keys", "keys+tls"} {
		o := serverOptions(b)
		o.MaxPayload = defaultMaxPayload
		near, far := ConnectOptions{Cluster: "c"}, ConnectOptions{Cluster: "c"}
		if security == "keys+tls" {
			authority := newAuthority(b)
			o.TLSConfig, o.TLSTimeout = authority.serverConfig(false), 5
			near.CAFile, far.CAFile = authority.file, authority.file
		}
		if security != "none" {
			for _, c := range []struct {
				role Role
				to   *ConnectOptions
				ids  []string
			}{{RoleCoordinator, &near, nil}, {RoleWorker, &far, []string{"w0"}}} {
				public, file := testKey(b)
				c.to.NKey = filepath.Clean(file)
				p, err := PermissionsOf(c.role, "c", public, c.ids...)
				if err != nil {
					b.Fatal(err)
				}
				o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: public, Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
				}})
			}
		}
		e := startExternal(b, o)
		near.URL, far.URL = e.url(), e.url()
		open := func(o ConnectOptions) *Conn {
			c, err := Connect(testContext(b), o)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(c.Close)
			return c
		}
		requester := newTestRequester(b, open(near), "c")
		result := &Result{}
		newTestResponder(b, open(far), "c", "w0", "i", &testHandler{work: func(_ context.Context, w *Work) (*Result, error) {
			result.Rows, result.Hidden = w.Rows, w.Hidden
			if len(result.Sum) != w.Rows*w.Hidden {
				result.Sum = make([]int64, w.Rows*w.Hidden)
			}
			return result, nil
		}})
		x := requester.NewExchange(1)
		for _, rows := range []int{1, 64} {
			w := testWork(0, rows, 2048, true)
			b.Run(fmt.Sprintf("rows=%d/security=%s", rows, security), func(b *testing.B) {
				for b.Loop() {
					w.Request = x.NextRequest()
					if err := x.Send("w0", w); err != nil {
						b.Fatal(err)
					}
					if r := receiveFrom(b, x); r.Err != nil {
						b.Fatal(r.Err)
					} else {
						x.Recycle(r.Result)
					}
				}
			})
		}
	}
}
