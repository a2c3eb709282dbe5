// Package certificates makes certificates for tests: an authority, and what it signs, in files.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Usual is how long a certificate is valid that causes no warning.
const Usual = 90 * 24 * time.Hour

// Identity has the paths of a certificate and its key.
type Identity struct{ CertFile, KeyFile string }

// In is the identity of this name in a folder.
func In(dir, name string) Identity {
	return Identity{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
}

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes one of this name and writes its certificate to the file.
func NewAuthority(file, name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := template(name, time.Now().Add(Usual))
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &Authority{certificate: certificate, key: key}, errors.Join(err, write(file, "CERTIFICATE", der))
}

// Issue writes a certificate for servers and clients with this name, 127.0.0.1 and localhost, and its key, in place of the existing
// ones. Its end may have passed.
func (a *Authority) Issue(to Identity, name string, end time.Time) error {
	return issue(a, to, name, end)
}

// SelfSigned writes the same without an authority.
func SelfSigned(to Identity, name string) error {
	return issue(nil, to, name, time.Now().Add(Usual))
}

func issue(by *Authority, to Identity, name string, end time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := template(name, end)
	if err != nil {
		return err
	}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if by == nil {
		by = &Authority{certificate: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, &key.PublicKey, by.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(write(to.CertFile, "CERTIFICATE", der), write(to.KeyFile, "PRIVATE KEY", private))
}

func template(name string, end time.Time) (*x509.Certificate, error) {
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: number,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    end.Add(-2 * Usual),
		NotAfter:     end,
	}, err
}

func write(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
