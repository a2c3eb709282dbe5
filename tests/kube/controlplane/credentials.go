package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
)

// credentials are the files with which the apiserver and its clients authenticate each other.
type credentials struct {
	token             string
	tokenFile         string
	serviceAccountKey string
	certDir           string
}

// newCredentials writes the files. The token's group is exempt from the apiserver's fairness
// queues, which would otherwise slow the scheduler down.
func newCredentials(dir string) (credentials, error) {
	c := credentials{
		token:             rand.Text(),
		tokenFile:         filepath.Join(dir, "tokens.csv"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
		certDir:           filepath.Join(dir, "certificates"),
	}
	line := c.token + ",admin,admin,system:masters\n"
	if err := os.WriteFile(c.tokenFile, []byte(line), 0o600); err != nil {
		return credentials{}, err
	}
	return c, writeKey(c.serviceAccountKey)
}

func writeKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// serverCertificate is written by the apiserver at its start: the certificate and its issuer.
func (c credentials) serverCertificate() string {
	return filepath.Join(c.certDir, "apiserver.crt")
}

// serverKey is written after the certificate, so if it exists, the certificate is complete.
func (c credentials) serverKey() string {
	return filepath.Join(c.certDir, "apiserver.key")
}
