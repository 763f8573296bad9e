package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// testKey makes a user's nkey and gives its public key and the file of its seed.
func testKey(t testing.TB) (public, file string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()
	public, _ = pair.PublicKey()
	file = filepath.Join(t.TempDir(), "user.nk")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return public, file
}

// testAuthority is a CA that makes certificates for 127.0.0.1.
type testAuthority struct {
	t           testing.TB
	file        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *testAuthority {
	t.Helper()
	a := &testAuthority{t: t}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.file, _ = a.issue("ca", template)
	return a
}

// issue writes a certificate and its key; the first one signs itself.
func (a *testAuthority) issue(name string, c *x509.Certificate) (certificateFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(1), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.certificate == nil {
		a.key = key
		if a.certificate, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	certificateFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	for file, block := range map[string]*pem.Block{certificateFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return certificateFile, keyFile
}

func (a *testAuthority) serverConfig(verify bool) *tls.Config {
	a.t.Helper()
	certificate, key := a.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	config, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: certificate, KeyFile: key, CaFile: a.file, Verify: verify})
	if err != nil {
		a.t.Fatal(err)
	}
	return config
}

// TestTLS: the server's certificate is checked, a client certificate is shown where it is wanted, and errors say which flags they are about.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority, other := newAuthority(t), newAuthority(t)
	client := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	certificate, key := authority.issue("client", client)
	stranger, strangerKey := other.issue("client", client)
	start := func(config *tls.Config) string {
		o := serverOptions(t)
		o.TLSConfig, o.TLSTimeout = config, 5
		return startExternal(t, o).url()
	}
	plain, open, verifying := start(nil), start(authority.serverConfig(false)), start(authority.serverConfig(true))
	for name, c := range map[string]struct {
		o   ConnectOptions
		err string
	}{
		"right CA":             {ConnectOptions{URL: open, CAFile: authority.file}, ""},
		"tls scheme":           {ConnectOptions{URL: strings.Replace(open, "nats:", "tls:", 1), CAFile: authority.file}, ""},
		"client certificate":   {ConnectOptions{URL: verifying, CAFile: authority.file, CertFile: certificate, KeyFile: key}, ""},
		"no CA":                {ConnectOptions{URL: open}, "--nats-ca"},
		"another CA":           {ConnectOptions{URL: open, CAFile: other.file}, "--nats-ca"},
		"another host":         {ConnectOptions{URL: strings.Replace(open, "127.0.0.1", "localhost", 1), CAFile: authority.file}, "--nats-ca"},
		"no certificate":       {ConnectOptions{URL: verifying, CAFile: authority.file}, "--nats-cert"},
		"another certificate":  {ConnectOptions{URL: verifying, CAFile: authority.file, CertFile: stranger, KeyFile: strangerKey}, "--nats-cert"},
		"a server without TLS": {ConnectOptions{URL: plain, CAFile: authority.file}, "has no TLS"},
	} {
		conn, err := Connect(testContext(t), c.o)
		if err == nil {
			conn.Close()
		}
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
}

// TestFileErrors: an unreadable or wrong file is an error at once that names it and its flag.
func TestFileErrors(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	certificate, key := authority.issue("client", &x509.Certificate{})
	_, otherKey := authority.issue("client", &x509.Certificate{})
	public, seed := testKey(t)
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	accountSeed, _ := account.Seed()
	missing, garbage, publicFile, accountFile := filepath.Join(t.TempDir(), "missing"), write("garbage"), write(public), write(string(accountSeed))
	broken := write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	for name, c := range map[string]struct {
		o     ConnectOptions
		words []string
	}{
		"no CA file":          {ConnectOptions{CAFile: missing}, []string{"--nats-ca", missing, "no such file"}},
		"CA is garbage":       {ConnectOptions{CAFile: garbage}, []string{"--nats-ca", garbage, "no certificate"}},
		"CA is broken":        {ConnectOptions{CAFile: broken}, []string{"--nats-ca", broken, "certificate 1"}},
		"CA is a key":         {ConnectOptions{CAFile: key}, []string{"--nats-ca", key, "no certificate"}},
		"no certificate":      {ConnectOptions{CertFile: missing, KeyFile: key}, []string{"--nats-cert", missing}},
		"no key":              {ConnectOptions{CertFile: certificate, KeyFile: missing}, []string{"--nats-key", missing}},
		"another key":         {ConnectOptions{CertFile: certificate, KeyFile: otherKey}, []string{"--nats-key", otherKey, certificate}},
		"key is garbage":      {ConnectOptions{CertFile: certificate, KeyFile: garbage}, []string{"--nats-key", garbage}},
		"half":                {ConnectOptions{CertFile: certificate}, []string{"--nats-key", "both"}},
		"no seed file":        {ConnectOptions{NKey: missing}, []string{"--nats-nkey", missing}},
		"seed is garbage":     {ConnectOptions{NKey: garbage}, []string{"--nats-nkey", garbage, "no nkey seed"}},
		"seed is public":      {ConnectOptions{NKey: publicFile}, []string{"--nats-nkey", publicFile, "public key"}},
		"an account's seed":   {ConnectOptions{NKey: accountFile}, []string{"--nats-nkey", accountFile, "SU"}},
		"no credentials":      {ConnectOptions{Credentials: missing}, []string{"--nats-creds", missing}},
		"credentials garbage": {ConnectOptions{Credentials: garbage}, []string{"--nats-creds", garbage, "no user JWT"}},
		"both":                {ConnectOptions{Credentials: garbage, NKey: seed}, []string{"--nats-creds", "--nats-nkey"}},
		"scheme":              {ConnectOptions{URL: "http://user:secret@host"}, []string{"--nats", "http", "tls"}},
		"no host":             {ConnectOptions{URL: "nats://127.0.0.1:1,,"}, []string{"--nats", "server 2"}},
		"no port":             {ConnectOptions{URL: "nats://user:secret@host:port"}, []string{"--nats", "server 1"}},
	} {
		if c.o.URL == "" {
			c.o.URL = "nats://127.0.0.1:1"
		}
		_, err := Connect(testContext(t), c.o)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, w := range append(c.words, "") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", name, err, w)
			}
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "SU") && len(err.Error()) > 400 {
			t.Errorf("%s: a secret is shown: %v", name, err)
		}
	}
}

// keyed is a server on which each role has its key.
type keyed struct {
	servers *externalServers
	files   map[string]string // seed by name
	public  map[string]string
}

// newKeyed makes keys for a coordinator, two clients, an admin and two workers, of which left may use two ids.
func newKeyed(t testing.TB, change ...func(*server.Options)) *keyed {
	t.Helper()
	k := &keyed{files: map[string]string{}, public: map[string]string{}}
	o := serverOptions(t)
	for name, c := range map[string]struct {
		role Role
		ids  []string
	}{
		"coordinator": {RoleCoordinator, nil}, "client": {RoleClient, nil}, "other": {RoleClient, nil}, "admin": {RoleAdmin, nil},
		"left": {RoleWorker, []string{"left-0", "left-1"}}, "right": {RoleWorker, []string{"right-0"}},
	} {
		k.public[name], k.files[name] = testKey(t)
		p, err := PermissionsOf(c.role, "c", k.public[name], c.ids...)
		if err != nil {
			t.Fatal(err)
		}
		o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: k.public[name], Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
		}})
	}
	for _, c := range change {
		c(o)
	}
	k.servers = startExternal(t, o)
	return k
}

func (k *keyed) connect(t testing.TB, name string) *Conn {
	t.Helper()
	c, err := Connect(testContext(t), ConnectOptions{URL: k.servers.url(), NKey: k.files[name], Cluster: "c", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// mayPublish says whether the server takes a message.
func mayPublish(t testing.TB, c *Conn, subject string) bool {
	t.Helper()
	if err := c.nats.Publish(subject, []byte("x")); err != nil {
		t.Fatal(err)
	}
	flush(t, c)
	err := c.nats.LastError()
	return err == nil || !strings.Contains(err.Error(), fmt.Sprintf("Publish to %q", subject))
}

func maySubscribe(t testing.TB, c *Conn, subject string) bool {
	t.Helper()
	s, err := c.subscribe(subject, make(chan *nats.Msg, 1))
	if err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatal(err)
	}
	if err != nil {
		return false
	}
	defer s.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	flush(t, c)           // a refusal may come later than subscribe waits for it
	later := c.nats.LastError()
	return later == nil || !strings.Contains(later.Error(), fmt.Sprintf("Subscription to %q", subject))
}

// TestPermissions: the server itself keeps each key to its role.
func TestPermissions(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	if _, err := Connect(testContext(t), ConnectOptions{URL: k.servers.url()}); !errors.Is(err, nats.ErrAuthorization) || !strings.Contains(err.Error(), "--nats-nkey") {
		t.Fatal(err)
	}
	_, unknown := testKey(t)
	if _, err := Connect(testContext(t), ConnectOptions{URL: k.servers.url(), NKey: unknown}); !errors.Is(err, nats.ErrAuthorization) || !strings.Contains(err.Error(), unknown) {
		t.Fatal(err)
	}
	inbox := func(name string) string { return inboxPrefix("c", k.public[name]) }
	publish := map[string]string{ // who may
		workSubject("c", "left-0"):                              "coordinator",
		controlSubject("c", "left-0"):                           "coordinator",
		coordinatorSubject("c"):                                 "coordinator",
		beatSubject("c", "left-0"):                              "left",
		beatSubject("c", "left-1"):                              "left",
		beatSubject("c", "right-0"):                             "right",
		replySubject(replyInbox("c", "x"), "left-0"):            "left",
		replySubject(replyInbox("c", "x"), "right-0"):           "right",
		replyInbox("c", "x"):                                    "",
		replySubject(replyInbox("c", "x"), "right-0") + ".more": "",
		generateSubject("c"):                                    "client other admin",
		replySubject(generateStreams("c", "x"), "1"):            "client other admin",
		adminSubject("c", "drain"):                              "admin",
		"$SRV.PING":                                             "client other admin",
		inbox("client") + ".x":                                  "coordinator",
		workSubject("another", "left-0"):                        "",
		generateSubject("another"):                              "",
		"$SYS.REQ.SERVER.PING":                                  "",
		"$JS.API.INFO":                                          "",
		"anything":                                              "",
	}
	subscribe := map[string]string{
		workSubject("c", "left-0"):                   "left",
		workSubject("c", "right-0"):                  "right",
		workSubject("c", "*"):                        "",
		controlSubject("c", "right-0"):               "right",
		coordinatorSubject("c"):                      "left right",
		beatSubject("c", "*"):                        "coordinator",
		beatSubject("c", "left-0"):                   "coordinator",
		replySubject(replyInbox("c", "x"), "*"):      "coordinator",
		generateSubject("c"):                         "coordinator",
		replySubject(generateStreams("c", "x"), "*"): "coordinator",
		adminSubject("c", ">"):                       "coordinator",
		"$SRV.PING":                                  "coordinator",
		inbox("client") + ".*":                       "client",
		inbox("other") + ".*":                        "other",
		inbox("left") + ".*":                         "left",
		clusterSubject("c", "inbox", "*", "*"):       "",
		"moe.>":                                      "",
		">":                                          "",
		"_INBOX.>":                                   "",
	}
	for name := range k.files {
		conn := k.connect(t, name)
		for subject, who := range publish {
			if want := strings.Contains(" "+who+" ", " "+name+" "); mayPublish(t, conn, subject) != want {
				t.Errorf("%s may publish on %s: want %v", name, subject, want)
			}
		}
		for subject, who := range subscribe {
			if want := strings.Contains(" "+who+" ", " "+name+" "); maySubscribe(t, conn, subject) != want {
				t.Errorf("%s may subscribe to %s: want %v", name, subject, want)
			}
		}
	}
}

// TestPermissionsWork: everything that is needed works with these keys, and a worker with an id that is not its key's is told so.
func TestPermissionsWork(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	requester := newTestRequester(t, k.connect(t, "coordinator"), "c")
	beats := make(chan string, 10)
	stop, err := requester.SubscribeBeats(func(b *Beat) { beats <- b.Worker })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	left := k.connect(t, "left")
	if _, err := NewResponder(left, "c", "right-0", "i", &testHandler{}); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "right-0") {
		t.Fatalf("another worker's id: %v", err)
	}
	if _, err := NewRequester(left, "c"); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatalf("a coordinator with a worker's key: %v", err)
	}
	for _, w := range []struct {
		id   string
		conn *Conn
	}{{"left-0", left}, {"left-1", left}, {"right-0", k.connect(t, "right")}} {
		responder := newTestResponder(t, w.conn, "c", w.id, "i", &testHandler{work: summing})
		if err := requester.Assign(testContext(t), w.id, &Assign{Coordinator: "me"}); err != nil {
			t.Fatal(err)
		}
		replies := make(chan Reply, 4)
		if err := requester.Send(w.id, testWork(1, 40, 2048, true), replies); err != nil {
			t.Fatal(err)
		}
		if r := receive(t, replies); r.Err != nil || r.Worker != w.id {
			t.Fatalf("%+v", r)
		}
		if err := responder.Beat(&Beat{Worker: w.id, Instance: "i"}); err != nil {
			t.Fatal(err)
		}
		if id := <-beats; id != w.id {
			t.Fatalf("beat of %s", id)
		}
	}
}

// TestCredentials: a .creds file of a user whose account an operator signed; the connection's inboxes are named after the user's key.
func TestCredentials(t *testing.T) {
	t.Parallel()
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		p, err := create()
		if err != nil {
			t.Fatal(err)
		}
		public, _ := p.PublicKey()
		return p, public
	}
	operator, operatorKey := pair(nkeys.CreateOperator)
	account, accountKey := pair(nkeys.CreateAccount)
	user, userKey := pair(nkeys.CreateUser)
	sign := func(text string, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	claims := jwt.NewOperatorClaims(operatorKey)
	o := serverOptions(t)
	o.TrustedOperators = []*jwt.OperatorClaims{claims}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountKey, sign(jwt.NewAccountClaims(accountKey).Encode(operator))); err != nil {
		t.Fatal(err)
	}
	o.AccountResolver = resolver
	permitted := jwt.NewUserClaims(userKey)
	p, err := PermissionsOf(RoleClient, "c", userKey)
	if err != nil {
		t.Fatal(err)
	}
	permitted.Pub.Allow, permitted.Sub.Allow = p.Publish, p.Subscribe
	seed, _ := user.Seed()
	creds, err := jwt.FormatUserConfig(sign(permitted.Encode(account)), seed)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Connect(testContext(t), ConnectOptions{URL: startExternal(t, o).url(), Credentials: file, Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if !strings.Contains(c.NewInbox("c"), userKey) || !maySubscribe(t, c, c.NewInbox("c")) || maySubscribe(t, c, beatSubject("c", "*")) {
		t.Fatalf("inbox %s", c.NewInbox("c"))
	}
}
