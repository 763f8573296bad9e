package nats

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	authorityYears = 10
	serverDays     = 397
	renewBefore    = 30 * 24 * time.Hour
)

// certificates makes the two CAs and what they sign. Routes have a CA of their own: whoever shows one of its certificates is a server and may
// read and send everything, which no client's certificate must ever be enough for.
func (o *Options) certificates() error {
	clients, err := newAuthority(filepath.Join(o.Dir, "authority", "ca"), "moepool NATS "+o.Cluster)
	if err != nil {
		return err
	}
	routes, err := newAuthority(filepath.Join(o.Dir, "authority", "route-ca"), "moepool NATS routes "+o.Cluster)
	if err != nil {
		return err
	}
	tls := filepath.Join(o.Dir, "server", "tls")
	if err := clients.issue(filepath.Join(tls, "server"), o.Hosts, x509.ExtKeyUsageServerAuth); err != nil {
		return err
	}
	if err := routes.issue(filepath.Join(tls, "route"), o.Hosts, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth); err != nil {
		return err
	}
	for file, a := range map[string]*authority{filepath.Join(o.Dir, "ca.pem"): clients, filepath.Join(tls, "route-ca.pem"): routes} {
		if err := replaceFile(file, pemBlock("CERTIFICATE", a.certificate.Raw)); err != nil {
			return err
		}
	}
	return nil
}

// authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority reads base.pem and base-key.pem, or makes them if neither exists.
func newAuthority(base, name string) (*authority, error) {
	a := &authority{}
	var err error
	a.certificate, a.key, err = readPair(base)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return a, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().AddDate(authorityYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if err := writePair(base, template, nil); err != nil {
		return nil, err
	}
	a.certificate, a.key, err = readPair(base)
	return a, err
}

// issue writes base.pem and base-key.pem for the hosts, unless what is there still serves.
func (a *authority) issue(base string, hosts []string, usages ...x509.ExtKeyUsage) error {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, NotAfter: time.Now().AddDate(0, 0, serverDays),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	old, _, err := readPair(base)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil && old.CheckSignatureFrom(a.certificate) == nil && time.Until(old.NotAfter) > renewBefore && slices.Equal(old.DNSNames, template.DNSNames) &&
		slices.EqualFunc(old.IPAddresses, template.IPAddresses, net.IP.Equal) {
		return nil
	}
	return writePair(base, template, a)
}

// writePair makes a key and its certificate, signed by a or by itself.
func writePair(base string, template *x509.Certificate, a *authority) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template.SerialNumber, template.NotBefore = serial, time.Now().Add(-time.Hour) // clocks differ
	if a == nil {
		a = &authority{certificate: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := replaceFile(base+"-key.pem", pemBlock("PRIVATE KEY", private)); err != nil {
		return err
	}
	return replaceFile(base+".pem", pemBlock("CERTIFICATE", der))
}

// readPair reads base.pem and base-key.pem. The error wraps os.ErrNotExist if the certificate is missing.
func readPair(base string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	der, err := readPEM(base+".pem", "CERTIFICATE")
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("%s.pem: %w", base, err)
	}
	der, err = readPEM(base+"-key.pem", "PRIVATE KEY")
	if err != nil {
		return nil, nil, fmt.Errorf("%s.pem is here, its key is not: %s", base, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, nil, fmt.Errorf("%s-key.pem: %w", base, err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok || !private.PublicKey.Equal(certificate.PublicKey) {
		return nil, nil, fmt.Errorf("%s-key.pem is not the key of %s.pem", base, base)
	}
	return certificate, private, nil
}

func readPEM(file, kind string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s: a PEM block %s is expected", file, kind)
	}
	return block.Bytes, nil
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
