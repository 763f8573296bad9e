package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestStrangersAreRefused: without a certificate of the group's authority nothing is heard from the coordinators' port; a peer without TLS
// neither. The group doesn't mind.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1)
	g.start("a")
	g.leader()
	address := g.peers[0].Address
	ca, err := os.ReadFile(CertificateFiles(g.certs, "a").CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	other := t.TempDir()
	if _, err := WriteCertificates(other, g.peers); err != nil {
		t.Fatal(err)
	}
	foreign, err := CertificateFiles(other, "a").certificate()
	if err != nil {
		t.Fatal(err)
	}
	own, err := CertificateFiles(g.certs, "a").certificate()
	if err != nil {
		t.Fatal(err)
	}
	// dial says hello to raft, half a request, and gives what comes of it.
	dial := func(c *tls.Config) <-chan error {
		closed := make(chan error, 1)
		c.RootCAs, c.ServerName = pool, "127.0.0.1"
		conn, err := tls.Dial("tcp", address, c)
		if err != nil {
			closed <- err
			return closed
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(testDeadline))
		_, _ = conn.Write([]byte{1}) // the answer says whether it was taken
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := conn.Read(make([]byte, 1))
			closed <- err
		}()
		t.Cleanup(func() { <-done })
		t.Cleanup(func() { conn.Close() })
		return closed
	}
	member := dial(&tls.Config{Certificates: []tls.Certificate{*own}})
	for what, c := range map[string]*tls.Config{
		"no certificate":           {},
		"one of another authority": {Certificates: []tls.Certificate{*foreign}},
		"an old version of TLS":    {Certificates: []tls.Certificate{*own}, MaxVersion: tls.VersionTLS12},
	} {
		if err := <-dial(c); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	select {
	case err := <-member:
		t.Errorf("a member was refused: %v", err)
	default:
	}
	plain, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_ = plain.SetDeadline(time.Now().Add(testDeadline))
	fmt.Fprint(plain, "GET / HTTP/1.0\r\n\r\n")
	if answer, err := io.ReadAll(plain); err != nil && !strings.Contains(err.Error(), "reset") || len(answer) > 7 { // a TLS alert at most
		t.Errorf("%q, %v", answer, err)
	}
	waitFor(t, "the refusal in the log", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return strings.Contains(strings.Join(g.said, "\n"), "a connection to the coordinators' port was refused: 127.0.0.1")
	})
	g.leader()
}

// TestForeignGroup: a coordinator of another authority neither joins nor disturbs, and one that is not who its address says is not spoken to.
func TestForeignGroup(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.start("a", "b")
	g.must(&AdmitWorkers{[]Worker{{ID: "w0"}}})
	other := t.TempDir()
	if _, err := WriteCertificates(other, g.peers); err != nil {
		t.Fatal(err)
	}
	o := g.options("c")
	o.TLS = CertificateFiles(other, "c")
	stranger, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	waitFor(t, "refusals on both sides", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		all := strings.Join(g.said, "\n")
		return strings.Contains(all, "a: a connection to the coordinators' port was refused") || strings.Contains(all, "b: a connection to the coordinators' port was refused")
	})
	g.must(&AdmitWorkers{[]Worker{{ID: "w1"}}})
	if s := stranger.State(); s.Index != 0 || stranger.Leadership().Leads {
		t.Fatalf("%+v", s)
	}
}

// TestCertificates: a second call keeps what is there, and makes what is missing from the same authority.
func TestCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	peers := []Peer{{ID: "a", Address: "10.0.0.1:1"}, {ID: "b", Address: "host.example:1"}}
	written, err := WriteCertificates(dir, peers[:1])
	if err != nil || len(written) != 4 {
		t.Fatal(written, err)
	}
	if written, err = WriteCertificates(dir, peers); err != nil || len(written) != 2 {
		t.Fatal(written, err)
	}
	ca, err := os.ReadFile(CertificateFiles(dir, "b").CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	for id, host := range map[string]string{"a": "10.0.0.1", "b": "host.example"} {
		c, err := CertificateFiles(dir, id).certificate()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host}); err != nil {
			t.Error(err)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "elsewhere"}); err == nil {
			t.Error("valid for any host")
		}
		if info, err := os.Stat(CertificateFiles(dir, id).Key); err != nil || info.Mode().Perm() != 0o600 {
			t.Error(info.Mode(), err)
		}
	}
	if _, err := WriteCertificates(dir, []Peer{{ID: "ca", Address: "h:1"}}); err == nil {
		t.Error("a coordinator's certificate would be the authority's file")
	}
}
