package policy

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// TLSFiles are the files of a server with TLS; the zero value is one without.
type TLSFiles struct {
	// Cert and Key are the server's certificate, with intermediate ones, and its key, in PEM.
	Cert string
	Key  string
	// ClientCA, if set, makes clients present a certificate of one of these authorities.
	ClientCA string
}

// alpn is the protocol of gRPC, without which a client refuses the connection.
var alpn = []string{"h2"}

func (f TLSFiles) mistake() string {
	switch {
	case f.Cert != "" && f.Key == "":
		return "--tls-key is missing; --tls-cert FILE and --tls-key FILE are given together"
	case f.Cert == "" && f.Key != "":
		return "--tls-cert is missing; --tls-cert FILE and --tls-key FILE are given together"
	case f.Cert == "" && f.ClientCA != "":
		return "--tls-client-ca needs --tls-cert FILE and --tls-key FILE"
	default:
		return ""
	}
}

// rotating serves the certificate that is in the files when a client connects. They are small, and a handshake costs more
// than to read them. If new files are broken, the old ones stay in use, which is logged once.
type rotating struct {
	files  TLSFiles
	logger *slog.Logger

	mu      sync.Mutex
	read    [3][]byte
	failed  string
	current *tls.Config
}

func newRotating(files TLSFiles, logger *slog.Logger) (*rotating, error) {
	r := &rotating{files: files, logger: logger}
	contents, err := files.read()
	if err != nil {
		return nil, err
	}
	r.current, err = files.config(contents)
	r.read = contents
	return r, err
}

// config is that of the listener.
func (r *rotating) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: alpn,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return r.latest(), nil
		},
	}
}

func (r *rotating) latest() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	contents, err := r.files.read()
	if err == nil {
		if equal(contents, r.read) {
			return r.current
		}
		var changed *tls.Config
		if changed, err = r.files.config(contents); err == nil {
			r.current, r.read, r.failed = changed, contents, ""
			r.logger.Info("the TLS files have changed; new connections use them")
			return r.current
		}
	}
	if r.failed != err.Error() {
		r.failed = err.Error()
		r.logger.Error("the changed TLS files cannot be used; the earlier ones stay in use", "error", err)
	}
	return r.current
}

func equal(one, two [3][]byte) bool {
	for index := range one {
		if !bytes.Equal(one[index], two[index]) {
			return false
		}
	}
	return true
}

func (f TLSFiles) read() ([3][]byte, error) {
	var contents [3][]byte
	for index, option := range []struct{ name, path string }{
		{"--tls-cert", f.Cert}, {"--tls-key", f.Key}, {"--tls-client-ca", f.ClientCA},
	} {
		if option.path == "" {
			continue
		}
		read, err := os.ReadFile(option.path)
		if err != nil {
			return contents, fmt.Errorf("cannot read %s %s: %w; give a PEM file that this user may read", option.name, option.path, reason(err))
		}
		contents[index] = read
	}
	return contents, nil
}

// reason is the system's answer without the path or the address, which the text has already.
func reason(err error) error { return cmp.Or(errors.Unwrap(err), err) }

func (f TLSFiles) config(contents [3][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("cannot use --tls-cert %s with --tls-key %s: %w; give a certificate and its key in PEM", f.Cert, f.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: alpn, Certificates: []tls.Certificate{pair}}
	if f.ClientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return nil, fmt.Errorf("cannot use --tls-client-ca %s: it has no certificate in PEM; give those of the clients' authorities", f.ClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}
