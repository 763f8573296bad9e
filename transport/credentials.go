package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// anyIdentity is in the inboxes of connections that have no key: a token is everybody's.
const anyIdentity = "any"

// credentials gives the options that prove who connects, and its identity: the public key where there is one. Files are read here once,
// so that a wrong one is an error at the start that names it and its flag, and again by nats.go at each connection.
func (o *ConnectOptions) credentials() (options []nats.Option, identity string, err error) {
	identity = anyIdentity
	if o.Token != "" {
		options = append(options, nats.Token(o.Token))
	}
	if o.Credentials != "" && o.NKey != "" {
		return nil, "", errors.New("--nats-creds and --nats-nkey: only one of them says who connects")
	}
	if o.Credentials != "" {
		if identity, err = userOfCredentials(o.Credentials); err != nil {
			return nil, "", fmt.Errorf("--nats-creds: %w", err)
		}
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.NKey != "" {
		if identity, err = userOfSeed(o.NKey); err != nil {
			return nil, "", fmt.Errorf("--nats-nkey: %w", err)
		}
		key, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, "", fmt.Errorf("--nats-nkey: %s: %w", o.NKey, err)
		}
		options = append(options, key)
	}
	certificates, err := o.certificates()
	return append(options, certificates...), identity, err
}

// certificates gives the options of TLS.
func (o *ConnectOptions) certificates() (options []nats.Option, err error) {
	if o.CAFile != "" {
		if err := checkCertificates(o.CAFile); err != nil {
			return nil, fmt.Errorf("--nats-ca: %w", err)
		}
		options = append(options, nats.RootCAs(o.CAFile))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, fmt.Errorf("TLS client certificate: both files are needed, given were --nats-cert %q and --nats-key %q", o.CertFile, o.KeyFile)
	}
	if o.CertFile == "" {
		return options, nil
	}
	if err := checkCertificates(o.CertFile); err != nil {
		return nil, fmt.Errorf("--nats-cert: %w", err)
	}
	if _, err := os.ReadFile(o.KeyFile); err != nil {
		return nil, fmt.Errorf("--nats-key: %w", err)
	}
	if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
		return nil, fmt.Errorf("--nats-key: %s does not go with the certificate %s: %w", o.KeyFile, o.CertFile, err)
	}
	return append(options, nats.ClientCert(o.CertFile, o.KeyFile)), nil
}

// checkCertificates says what is wrong with a file of certificates.
func checkCertificates(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	found := 0
	for rest := data; ; found++ {
		var block *pem.Block
		for block == nil || block.Type != "CERTIFICATE" {
			if block, rest = pem.Decode(rest); block == nil {
				if found == 0 {
					return fmt.Errorf("%s holds no certificate (PEM, BEGIN CERTIFICATE)", file)
				}
				return nil
			}
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("%s: certificate %d: %w", file, found+1, err)
		}
	}
}

// userOfSeed gives the public key of a file with an nkey seed.
func userOfSeed(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedNKey(data)
	if err != nil {
		if nkeys.IsValidPublicKey(strings.TrimSpace(string(data))) {
			return "", fmt.Errorf("%s holds a public key; the seed (SU...) is needed", file)
		}
		return "", fmt.Errorf("%s holds no nkey seed (SU...): %w", file, err)
	}
	return userOf(file, pair)
}

// userOfCredentials gives the public key of a credentials file.
func userOfCredentials(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if jwt, err := nkeys.ParseDecoratedJWT(data); err != nil || strings.Count(jwt, ".") != 2 {
		return "", fmt.Errorf("%s holds no user JWT (a .creds file has one, and a seed)", file)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(data)
	if err != nil {
		return "", fmt.Errorf("%s holds no seed of a user (SU...): %w", file, err)
	}
	return userOf(file, pair)
}

func userOf(file string, pair nkeys.KeyPair) (string, error) {
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("%s holds a key that is no user's (its seed has to start with SU): %s", file, public)
	}
	return public, nil
}

// servers checks a comma-separated list of URLs and gives it without spaces, and as it may be shown: without passwords.
func servers(list string) (clean, shown string, err error) {
	var all, redacted []string
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		full := text
		if !strings.Contains(full, "://") {
			full = "nats://" + full
		}
		u, err := url.Parse(full)
		if err != nil {
			problem := err
			if e := (*url.Error)(nil); errors.As(err, &e) {
				problem = e.Err // without the URL, which may hold a password
			}
			return "", "", fmt.Errorf("--nats: server %d of the list is no URL such as nats://host:4222: %w", len(all)+1, problem)
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return "", "", fmt.Errorf("--nats: %s: valid schemes are nats, tls, ws and wss", u.Redacted())
		}
		if u.Hostname() == "" {
			return "", "", fmt.Errorf("--nats: server %d of the list (%q) has no host; expected is a URL such as nats://host:4222", len(all)+1, u.Redacted())
		}
		if u.User != nil {
			if _, password := u.User.Password(); !password { // a token
				u.User = url.User("xxxxx")
			}
		}
		all, redacted = append(all, full), append(redacted, u.Redacted())
	}
	return strings.Join(all, ","), strings.Join(redacted, ","), nil
}
