package container

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"
)

const podProxy = "/api/v1/namespaces/gateways/pods/gateway-0:9403/proxy"

// startApiserver serves a list of one pod, and a proxy to the admin address of the gateway in it. It returns a kubeconfig.
func startApiserver(t *testing.T) string {
	t.Helper()
	ca, certificate := certificates(t)
	admin := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:9403"})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/gateways/pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {},
			"items": [{"metadata": {"name": "gateway-0"}, "status": {"phase": "Running"}}]}`)
	})
	mux.Handle("GET "+podProxy+"/", http.StripPrefix(podProxy, admin))
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s", certificate-authority-data: %s}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, server.URL, base64.StdEncoding.EncodeToString(ca))
}

// certificates makes an authority, and a certificate of it for 127.0.0.1.
func certificates(t *testing.T) (ca []byte, certificate tls.Certificate) {
	t.Helper()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "apiserver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(certificate *x509.Certificate) []byte {
		signed, err := x509.CreateCertificate(rand.Reader, certificate, authority, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sign(authority)})
	return ca, tls.Certificate{Certificate: [][]byte{sign(leaf)}, PrivateKey: key}
}
