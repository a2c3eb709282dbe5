package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// signed is a certificate by this authority and its key, in PEM. An authority without a certificate signs its own.
func (a *authority) signed(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IsCA: a.certificate == nil, BasicConstraintsValid: true,
	}
	if template.IsCA {
		a.certificate, a.key = template, own
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(own)
	must(t, err)
	if template.IsCA {
		a.certificate, err = x509.ParseCertificate(der)
		must(t, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// atAddress is a gateway that requires certificates of the authority that has signed its own. dir has the files of a plugin.
type atAddress struct {
	*scriptedGateway
	authority    *authority
	dir, address string
	// callers are the common names of the certificates that connections had.
	callers chan string
	stop    func()
}

func newAtAddress(t *testing.T) *atAddress {
	t.Helper()
	g := &atAddress{scriptedGateway: answering(&door.Placement{}), authority: &authority{}, dir: t.TempDir(), address: "127.0.0.1:0", callers: make(chan string, 9)}
	g.trust(t, g.authority)
	g.issueBy(t, g.authority, "first")
	g.start(t)
	return g
}

// trust has the plugin trust a new authority only.
func (g *atAddress) trust(t *testing.T, a *authority) {
	t.Helper()
	certificate, _ := a.signed(t, "authority")
	must(t, os.WriteFile(filepath.Join(g.dir, "ca.crt"), certificate, 0o600))
}

// issueBy renews the plugin's certificate.
func (g *atAddress) issueBy(t *testing.T, by *authority, name string) {
	t.Helper()
	certificate, key := by.signed(t, name)
	must(t, os.WriteFile(filepath.Join(g.dir, "tls.crt"), certificate, 0o600))
	must(t, os.WriteFile(filepath.Join(g.dir, "tls.key"), key, 0o600))
}

// start listens where the gateway did before.
func (g *atAddress) start(t *testing.T) {
	t.Helper()
	pair, err := tls.X509KeyPair(g.authority.signed(t, "gateway.test"))
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(g.authority.certificate)
	listener, err := net.Listen("tcp", g.address)
	must(t, err)
	g.address = listener.Addr().String()
	g.stop = g.serveOn(t, listener, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			g.callers <- state.PeerCertificates[0].Subject.CommonName
			return nil
		},
	})))
}

func (g *atAddress) args(serverName string) string {
	file := func(name string) string { return filepath.Join(g.dir, name) }
	return fmt.Sprintf("address: %q\ntls: {caFile: %q, certFile: %q, keyFile: %q, serverName: %q}", g.address, file("ca.crt"), file("tls.crt"), file("tls.key"), serverName)
}

func TestAtAnAddressFilesAreReadForEachConnection(t *testing.T) {
	g := newAtAddress(t)
	p := newPluginOf(t, g.args("gateway.test"))
	placed := func(by string) {
		t.Helper()
		eventually(t, "the gateway", func() bool {
			_, status := preFiltered(t, p, nodes("a"))
			return status.IsSkip()
		})
		if caller := <-g.callers; caller != by {
			t.Errorf("connected as %s instead of %s", caller, by)
		}
	}
	placed("first")
	g.stop()
	_, status := preFiltered(t, p, nodes("a"))
	expectStatus(t, "without a gateway", status, fwk.Error, "no gateway answers at address "+g.address, "compare its extender.address")
	g.issueBy(t, g.authority, "second")
	g.start(t)
	placed("second")
	must(t, os.Remove(filepath.Join(g.dir, "tls.key")))
	g.stop()
	g.start(t)
	eventually(t, "the missing key to be named", func() bool {
		_, status := preFiltered(t, p, nodes("a"))
		return strings.Contains(status.Message(), "tls.certFile and tls.keyFile: cannot use") && strings.Contains(status.Message(), "tls.key: no such file")
	})
	g.issueBy(t, g.authority, "third")
	placed("third")
}

func TestAtAnAddressBothSidesAreVerified(t *testing.T) {
	for title, c := range map[string]struct {
		serverName string
		change     func(*testing.T, *atAddress)
		says       string
	}{
		"another name":            {"other.test", func(*testing.T, *atAddress) {}, "certificate is valid for gateway.test, not other.test"},
		"another authority":       {"gateway.test", func(t *testing.T, g *atAddress) { g.trust(t, &authority{}) }, "unknown authority"},
		"a caller of another one": {"gateway.test", func(t *testing.T, g *atAddress) { g.issueBy(t, &authority{}, "stranger") }, "unknown certificate authority"},
	} {
		t.Run(title, func(t *testing.T) {
			g := newAtAddress(t)
			c.change(t, g)
			p := newPluginOf(t, g.args(c.serverName))
			// A connection can be reset before the alert of this server is read.
			eventually(t, c.says, func() bool {
				_, status := preFiltered(t, p, nodes("a"))
				expectStatus(t, title, status, fwk.Error, "no gateway answers at address")
				return strings.Contains(status.Message(), c.says)
			})
			if len(g.placed) > 0 {
				t.Error("the gateway was asked")
			}
		})
	}
}

func TestFilesThatCannotBeUsedStopKubeScheduler(t *testing.T) {
	for file, says := range map[string]string{
		"ca.crt":  "args of plugin ExtenderGateway: tls.caFile: ",
		"tls.crt": "args of plugin ExtenderGateway: tls.certFile and tls.keyFile: cannot use ",
		"tls.key": "args of plugin ExtenderGateway: tls.certFile and tls.keyFile: cannot use ",
	} {
		for _, breaking := range []func(string) error{os.Remove, func(path string) error { return os.WriteFile(path, []byte("no PEM"), 0o600) }} {
			g := newAtAddress(t)
			must(t, breaking(filepath.Join(g.dir, file)))
			if _, err := New(t.Context(), yamlArgs(g.args("gateway.test")), newFakeHandle()); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

type namedExtender struct {
	fwk.Extender
	url string
}

func (e namedExtender) Name() string { return e.url }

// The gateway at an address tells only callers with a certificate that it is one.
func TestAnExtenderThatIsTheGatewayAtTheAddressIsRefused(t *testing.T) {
	extender := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(gatewayHeader, "path") }))
	extender.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	extender.StartTLS()
	t.Cleanup(extender.Close)
	parsed, err := parseArgs(yamlArgs(newAtAddress(t).args("gateway.test")))
	must(t, err)
	p := &Plugin{gateway: &gateway{args: parsed}}
	if err := p.refuseTwice(t.Context(), []fwk.Extender{namedExtender{url: extender.URL}}); err == nil || !strings.Contains(err.Error(), "asked twice") {
		t.Errorf("%v", err)
	}
}
