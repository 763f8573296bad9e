package nats

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moepool/moepool/internal/certificates"
)

const (
	authorityYears = 10
	serverDays     = 397
	renewBefore    = 30 * 24 * time.Hour
)

// certificates makes the two CAs and what they sign. Routes have a CA of their own: whoever shows one of its certificates is a server and may
// read and send everything, which no client's certificate must ever be enough for.
func (o *Options) certificates() error {
	clients, err := authority(filepath.Join(o.Dir, "authority", "ca"), "moepool NATS "+o.Cluster)
	if err != nil {
		return err
	}
	routes, err := authority(filepath.Join(o.Dir, "authority", "route-ca"), "moepool NATS routes "+o.Cluster)
	if err != nil {
		return err
	}
	tls := filepath.Join(o.Dir, "server", "tls")
	if err := issue(clients, filepath.Join(tls, "server"), o.Hosts, x509.ExtKeyUsageServerAuth); err != nil {
		return err
	}
	if err := issue(routes, filepath.Join(tls, "route"), o.Hosts, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth); err != nil {
		return err
	}
	for file, ca := range map[string]*certificates.Pair{filepath.Join(o.Dir, "ca.pem"): clients, filepath.Join(tls, "route-ca.pem"): routes} {
		if err := replaceFile(file, ca.PEM()); err != nil {
			return err
		}
	}
	return nil
}

// authority reads a CA, or makes it if it does not exist.
func authority(base, name string) (*certificates.Pair, error) {
	ca, err := certificates.Read(base)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return ca, err
	}
	return certificates.Make(base, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().AddDate(authorityYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
}

// issue makes a certificate for the hosts, unless what is there still serves.
func issue(ca *certificates.Pair, base string, hosts []string, usages ...x509.ExtKeyUsage) error {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, NotAfter: time.Now().AddDate(0, 0, serverDays),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages,
	}
	certificates.NameHosts(template, hosts...)
	pair, err := certificates.Read(base)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil {
		old := pair.Certificate
		if old.CheckSignatureFrom(ca.Certificate) == nil && time.Until(old.NotAfter) > renewBefore && slices.Equal(old.DNSNames, template.DNSNames) &&
			slices.EqualFunc(old.IPAddresses, template.IPAddresses, net.IP.Equal) {
			return nil
		}
	}
	_, err = certificates.Make(base, template, ca)
	return err
}
