package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// identity has the paths of a certificate and its key.
type identity struct{ certFile, keyFile string }

// authority makes one and writes its certificate to DIR/NAME.crt.
func (s *scenario) authority(dir, name string) authority {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	template := template(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a := authority{certificate: template, key: key}
	der := s.sign(a, template, &key.PublicKey)
	s.writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der)
	a.certificate, err = x509.ParseCertificate(der)
	s.must(err)
	return a
}

// A certificate with this time left has no warning.
const usualValidity = 90 * 24 * time.Hour

// issue writes a certificate for the name and 127.0.0.1, and its key, in place of the existing ones.
func (s *scenario) issue(a authority, to identity, name string) {
	s.Helper()
	s.issueUntil(a, to, name, time.Now().Add(usualValidity))
}

// issueUntil is issue with an end of the validity, which may have passed.
func (s *scenario) issueUntil(a authority, to identity, name string, end time.Time) {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	template := template(name)
	template.NotBefore, template.NotAfter = end.Add(-2*usualValidity), end
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	s.writePEM(to.certFile, "CERTIFICATE", s.sign(a, template, &key.PublicKey))
	private, err := x509.MarshalECPrivateKey(key)
	s.must(err)
	s.writePEM(to.keyFile, "EC PRIVATE KEY", private)
}

func template(name string) *x509.Certificate {
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err) // crypto/rand does not fail.
	}
	return &x509.Certificate{
		SerialNumber: number,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(usualValidity),
	}
}

func (s *scenario) sign(a authority, template *x509.Certificate, key *ecdsa.PublicKey) (der []byte) {
	s.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
	s.must(err)
	return der
}

func (s *scenario) writePEM(file, kind string, der []byte) {
	s.Helper()
	s.must(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// in is the identity of this name in a folder.
func in(dir, name string) identity {
	return identity{certFile: filepath.Join(dir, name+".crt"), keyFile: filepath.Join(dir, name+".key")}
}
