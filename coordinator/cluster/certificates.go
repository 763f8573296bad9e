package cluster

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
	"time"
)

const (
	authorityName   = "ca"
	authorityYears  = 20
	certificateYear = 5
)

// CertificateFiles are where WriteCertificates puts what the coordinator of an id needs.
func CertificateFiles(dir, id string) TLSFiles {
	return TLSFiles{CA: pemPath(dir, authorityName), Cert: pemPath(dir, id), Key: keyPath(dir, id)}
}

func pemPath(dir, name string) string { return filepath.Join(dir, name+".pem") }
func keyPath(dir, name string) string { return filepath.Join(dir, name+"-key.pem") }

// WriteCertificates makes a certificate authority for a group and a certificate for each of its coordinators, valid for the host in its
// address. What is there already is kept: a group gets another coordinator by a second call with the same folder. It gives the files that
// were written. The authority's key (ca-key.pem) is needed only for that, and on no coordinator.
func WriteCertificates(dir string, peers []Peer) (written []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, p := range peers {
		if p.ID == authorityName {
			return nil, fmt.Errorf("no coordinator can have the id %q here: %s is the authority's file", p.ID, pemPath(dir, p.ID))
		}
	}
	authority, key, made, err := loadAuthority(dir)
	if err != nil {
		return nil, err
	}
	written = append(written, made...)
	for _, p := range peers {
		host, _, err := net.SplitHostPort(p.Address)
		if err != nil {
			return written, fmt.Errorf("coordinator %s: %w", p.ID, err)
		}
		if _, err := os.Stat(pemPath(dir, p.ID)); err == nil {
			continue
		}
		c := template("moepool coordinator "+p.ID, certificateYear)
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = []net.IP{ip}
		} else {
			c.DNSNames = []string{host}
		}
		_, made, err := issue(dir, p.ID, c, authority, key)
		if err != nil {
			return written, err
		}
		written = append(written, made...)
	}
	return written, nil
}

func template(name string, years int) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(years, 0, 0), BasicConstraintsValid: true,
	}
}

// loadAuthority reads the authority of a folder, or makes it.
func loadAuthority(dir string) (*x509.Certificate, *ecdsa.PrivateKey, []string, error) {
	data, err := os.ReadFile(pemPath(dir, authorityName))
	if errors.Is(err, os.ErrNotExist) {
		c := template("moepool coordinators", authorityYears)
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
		key, made, err := issue(dir, authorityName, c, nil, nil)
		return c, key, made, err
	}
	if err != nil {
		return nil, nil, nil, err
	}
	keyData, err := os.ReadFile(keyPath(dir, authorityName))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("there is a certificate authority, but its key can't be read: %w", err)
	}
	block, _ := pem.Decode(data)
	keyBlock, _ := pem.Decode(keyData)
	if block == nil || keyBlock == nil {
		return nil, nil, nil, fmt.Errorf("%s or its key is no PEM file", pemPath(dir, authorityName))
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", pemPath(dir, authorityName), err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", keyPath(dir, authorityName), err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, nil, fmt.Errorf("%s: an ECDSA key is needed, it is a %T", keyPath(dir, authorityName), key)
	}
	return c, private, nil, nil
}

// issue makes a key and a certificate, signed by the authority; without one it signs itself. The key's file comes first: a certificate that
// is there has its key.
func issue(dir, name string, c, authority *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if authority == nil {
		authority, signer = c, key
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, c, authority, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := writeSynced(keyPath(dir, name), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))); err != nil {
		return nil, nil, err
	}
	if err := writeSynced(pemPath(dir, name), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))); err != nil {
		return nil, nil, err
	}
	return key, []string{pemPath(dir, name), keyPath(dir, name)}, nil
}
