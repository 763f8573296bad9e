package cluster

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/moepool/moepool/internal/certificates"
)

const (
	authorityName   = "ca"
	authorityYears  = 20
	certificateYear = 5
)

// CertificateFiles are where WriteCertificates puts what the coordinator of an id needs.
func CertificateFiles(dir, id string) TLSFiles {
	authority, _ := certificates.Files(filepath.Join(dir, authorityName))
	own, key := certificates.Files(filepath.Join(dir, id))
	return TLSFiles{CA: authority, Cert: own, Key: key}
}

// WriteCertificates makes a certificate authority for a group and a certificate for each of its coordinators, valid for the host in its
// address. What is there already is kept: a group gets another coordinator by a second call with the same folder. It gives the files that
// were written. The authority's key (ca-key.pem) is needed only for that, and on no coordinator.
func WriteCertificates(dir string, peers []Peer) (written []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, p := range peers {
		if p.ID == authorityName {
			return nil, fmt.Errorf("no coordinator can have the id %q here: %s is the authority's file", p.ID, CertificateFiles(dir, p.ID).Cert)
		}
	}
	issue := func(name string, c *x509.Certificate, authority *certificates.Pair) (*certificates.Pair, error) {
		pair, err := certificates.Make(filepath.Join(dir, name), c, authority)
		if err == nil {
			f := CertificateFiles(dir, name)
			written = append(written, f.Cert, f.Key)
		}
		return pair, err
	}
	authority, err := certificates.Read(filepath.Join(dir, authorityName))
	if errors.Is(err, os.ErrNotExist) {
		c := template("moepool coordinators", authorityYears)
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
		authority, err = issue(authorityName, c, nil)
	}
	if err != nil {
		return written, err
	}
	for _, p := range peers {
		host, _, err := net.SplitHostPort(p.Address)
		if err != nil {
			return written, fmt.Errorf("coordinator %s: %w", p.ID, err)
		}
		if _, err := os.Stat(CertificateFiles(dir, p.ID).Cert); err == nil {
			continue
		}
		c := template("moepool coordinator "+p.ID, certificateYear)
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		certificates.NameHosts(c, host)
		if _, err := issue(p.ID, c, authority); err != nil {
			return written, err
		}
	}
	return written, nil
}

func template(name string, years int) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().AddDate(years, 0, 0), BasicConstraintsValid: true}
}
