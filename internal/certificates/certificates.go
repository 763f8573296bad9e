// Package certificates keeps X.509 certificates and their keys in pairs of PEM files, base.pem and base-key.pem, and makes them: authorities, and
// what they sign. Whom a certificate is for, and when another one is needed, is its callers' to say.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/moepool/moepool/internal/wholefile"
)

// Pair is a certificate with its private key.
type Pair struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Files are the names of a pair's files.
func Files(base string) (certificate, key string) { return base + ".pem", base + "-key.pem" }

// NameHosts makes a certificate one for hosts, each an address or a name.
func NameHosts(template *x509.Certificate, hosts ...string) {
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
}

// Make makes a key and its certificate and writes them; an authority signs it, or, with nil, the key itself. template says all but serial number
// and beginning. The key's file comes first: a certificate that is there has its key.
func Make(base string, template *x509.Certificate, authority *Pair) (*Pair, error) {
	p := &Pair{}
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour) // clocks differ
	if authority == nil {
		authority = &Pair{Certificate: template, key: p.key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Certificate, &p.key.PublicKey, authority.key)
	if err != nil {
		return nil, err
	}
	if p.Certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return nil, err
	}
	file, keyFile := Files(base)
	if err := wholefile.Write(keyFile, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: private})); err != nil {
		return nil, err
	}
	return p, wholefile.Write(file, p.PEM())
}

// PEM is the certificate as its file holds it.
func (p *Pair) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: p.Certificate.Raw})
}

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
)

// Read reads a pair. The error wraps os.ErrNotExist if the certificate is missing.
func Read(base string) (*Pair, error) {
	file, keyFile := Files(base)
	der, err := readPEM(file, certificateBlock)
	if err != nil {
		return nil, err
	}
	p := &Pair{}
	if p.Certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if der, err = readPEM(keyFile, keyBlock); err != nil {
		return nil, fmt.Errorf("%s is here, its key is not: %s", file, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	var ok bool
	if p.key, ok = key.(*ecdsa.PrivateKey); !ok || !p.key.PublicKey.Equal(p.Certificate.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s", keyFile, file)
	}
	return p, nil
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
