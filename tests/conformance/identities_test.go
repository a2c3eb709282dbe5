package conformance

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
	"testing"
	"time"
)

// identities are the certificates of a server and of a client, by one authority.
type identities struct{ dir string }

func newIdentities(t *testing.T) *identities {
	t.Helper()
	dir := t.TempDir()
	authority, key := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "conformance"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}, newKey(t)
	write(t, dir, "ca.crt", "CERTIFICATE", sign(t, authority, authority, key, key))
	for number, name := range []string{"server", "client"} {
		own := newKey(t)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(number) + 2), Subject: pkix.Name{CommonName: name},
			NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		write(t, dir, name+".crt", "CERTIFICATE", sign(t, template, authority, own, key))
		private, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, name+".key", "PRIVATE KEY", private)
	}
	return &identities{dir}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, authority *x509.Certificate, own, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &own.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func write(t *testing.T, dir, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (i *identities) file(name string) string { return filepath.Join(i.dir, name) }

// server are the options of a backend that requires certificates of its clients.
func (i *identities) server() []string {
	return []string{"--tls-cert", i.file("server.crt"), "--tls-key", i.file("server.key"), "--tls-client-ca", i.file("ca.crt")}
}

// client are the options of policy-conformance.
func (i *identities) client() []string {
	return []string{"--tls-ca", i.file("ca.crt"), "--tls-cert", i.file("client.crt"), "--tls-key", i.file("client.key")}
}
