package e2e

import (
	"path/filepath"
	"time"

	"extender-gateway.io/tests/kube/certificates"
)

// authority makes one and writes its certificate to DIR/NAME.crt.
func (s *scenario) authority(dir, name string) *certificates.Authority {
	s.Helper()
	authority, err := certificates.NewAuthority(filepath.Join(dir, name+".crt"), name)
	s.must(err)
	return authority
}

// issue writes a certificate for the name and 127.0.0.1, and its key, in place of the existing ones.
func (s *scenario) issue(by *certificates.Authority, to certificates.Identity, name string) {
	s.Helper()
	s.issueUntil(by, to, name, time.Now().Add(certificates.Usual))
}

// issueUntil is issue with an end of the validity, which may have passed.
func (s *scenario) issueUntil(by *certificates.Authority, to certificates.Identity, name string, end time.Time) {
	s.Helper()
	s.must(by.Issue(to, name, end))
}
