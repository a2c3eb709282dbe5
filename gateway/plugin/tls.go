package plugin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
)

// tlsFiles are the arguments for TLS, with certificates on both sides.
type tlsFiles struct {
	// ca has the authorities of the gateway's certificate.
	ca string
	// cert and key are kube-scheduler's own.
	cert, key string
	// serverName is what the gateway's certificate must have, "" for the host of the address.
	serverName string
}

// read makes credentials of what the files have now.
func (f tlsFiles) read() (credentials.TransportCredentials, error) {
	authorities, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("tls.caFile: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("tls.caFile: %s has no certificate; expected PEM", f.ca)
	}
	own, err := f.own()
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{
		RootCAs: roots,
		// Also if the gateway does not know its authority: then the gateway says that, and not that there is none.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil },
		ServerName:           f.serverName,
		MinVersion:           tls.VersionTLS13,
	}), nil
}

// own is kube-scheduler's certificate.
func (f tlsFiles) own() (*tls.Certificate, error) {
	own, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("tls.certFile and tls.keyFile: cannot use %s with %s: %w", f.cert, f.key, err)
	}
	return &own, nil
}

// fileCredentials read the files for each connection, so that a renewed certificate is used without a restart: the gateway has its
// callers connect again every ten minutes.
type fileCredentials struct {
	// TransportCredentials are of the files at the start.
	credentials.TransportCredentials
	files tlsFiles
}

// ClientHandshake implements credentials.TransportCredentials.
func (f fileCredentials) ClientHandshake(ctx context.Context, authority string, connection net.Conn) (net.Conn, credentials.AuthInfo, error) {
	current, err := f.files.read()
	if err != nil {
		return nil, nil, err
	}
	return current.ClientHandshake(ctx, authority, connection)
}

// Clone implements credentials.TransportCredentials.
func (f fileCredentials) Clone() credentials.TransportCredentials { return f }
