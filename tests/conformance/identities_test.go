package conformance

import (
	"path/filepath"
	"testing"
	"time"

	"extender-gateway.io/tests/kube/certificates"
)

// identities are the certificates of a server and of a client, by one authority.
type identities struct {
	authority      string
	server, client certificates.Identity
}

func newIdentities(t *testing.T) *identities {
	t.Helper()
	dir := t.TempDir()
	i := &identities{filepath.Join(dir, "ca.crt"), certificates.In(dir, "server"), certificates.In(dir, "client")}
	authority, err := certificates.NewAuthority(i.authority, "conformance")
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]certificates.Identity{"server": i.server, "client": i.client} {
		if err := authority.Issue(to, name, time.Now().Add(certificates.Usual)); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// serverOptions are those of a backend that requires certificates of its clients.
func (i *identities) serverOptions() []string {
	return []string{"--tls-cert", i.server.CertFile, "--tls-key", i.server.KeyFile, "--tls-client-ca", i.authority}
}

// clientOptions are those of policy-conformance.
func (i *identities) clientOptions() []string {
	return []string{"--tls-ca", i.authority, "--tls-cert", i.client.CertFile, "--tls-key", i.client.KeyFile}
}
