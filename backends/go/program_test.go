package policy

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"extender-gateway.io/policy/api/v1beta1"
)

// asProgram makes the test binary a policy's program.
const asProgram = "POLICY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		slow := noArm()
		slow.Filter.Node = func(Pod, Node) Verdict {
			time.Sleep(time.Second)
			return Accept()
		}
		Main(slow)
	}
	os.Exit(m.Run())
}

func program(t *testing.T, arguments ...string) (*exec.Cmd, *bytes.Buffer, io.Reader) {
	t.Helper()
	command := exec.CommandContext(within(t), os.Args[0], arguments...)
	command.Env = append(os.Environ(), asProgram+"=1")
	stderr := &bytes.Buffer{}
	command.Stderr = stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return command, stderr, stdout
}

func TestAProgramFinishesItsCallsAfterASignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		command, stderr, stdout := program(t)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(stdout)
		line, err := lines.ReadString('\n')
		address, is := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if err != nil || !is {
			t.Fatalf("%q, %v, %s", line, err, stderr)
		}
		s := &server{t: t, address: address}
		s.connect()
		if _, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{}); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() {
			_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(labeled("a", nil))})
			answered <- err
		}()
		time.Sleep(300 * time.Millisecond)
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		rest, _ := io.ReadAll(lines)
		if err := command.Wait(); err != nil || len(rest) > 0 {
			t.Errorf("%v, %q, %s", err, rest, stderr)
		}
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	command, _, stdout := program(t)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	s := &server{t: t, address: strings.TrimSpace(strings.TrimPrefix(line, "listening on "))}
	s.connect()
	rows := make([]*v1beta1.NodeRow, 60)
	for position := range rows {
		rows[position] = labeled("a", nil)
	}
	// A minute.
	go func() {
		_, _ = s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(rows...)})
	}()
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	for range 2 {
		_ = command.Process.Signal(syscall.SIGTERM)
		time.Sleep(100 * time.Millisecond)
	}
	if err := command.Wait(); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestWrongUsageAndAFailedStartAreNamed(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = used.Close() }()
	broken := filepath.Join(t.TempDir(), "broken.pem")
	if err := os.WriteFile(broken, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arguments string
		exit      int
		text      string
	}{
		{"--adress", 2, "unknown option --adress"},
		{"--address", 2, "a value is missing: --address"},
		{"--address localhost", 2, `invalid value "localhost" for --address: expected HOST:PORT such as 0.0.0.0:9000`},
		{"--address=1.2.3.4:x", 2, "expected HOST:PORT"},
		{"--log-calls=1", 2, `invalid boolean value "1" for --log-calls: expected true or false`},
		{"--metrics-address 127.0.0.1:0", 2, "--metrics-address needs metrics, which this program does not have"},
		{"extra", 2, `unexpected argument "extra"; expected options only`},
		{"--tls-cert a.pem", 2, "--tls-key is missing; --tls-cert FILE and --tls-key FILE are given together"},
		{"--tls-key a.pem", 2, "--tls-cert is missing"},
		{"--tls-client-ca a.pem", 2, "--tls-client-ca needs --tls-cert FILE and --tls-key FILE"},
		{"--address " + used.Addr().String(), 1, "cannot listen on " + used.Addr().String() + ": "},
		{"--address " + used.Addr().String(), 1, "; set another --address, or stop the process that uses it"},
		{"--tls-cert /missing.pem --tls-key /missing.pem", 1, "cannot read --tls-cert /missing.pem: no such file or directory; give a PEM file"},
		{"--tls-cert " + broken + " --tls-key " + broken, 1, "cannot use --tls-cert " + broken},
	} {
		var stdout, stderr bytes.Buffer
		exit := run(strings.Fields(c.arguments), noArm(), &stdout, &stderr)
		if exit != c.exit || !strings.Contains(stderr.String(), c.text) || stdout.Len() > 0 {
			t.Errorf("%s: %d, %s%s", c.arguments, exit, &stderr, &stdout)
		}
	}
	var stdout, stderr bytes.Buffer
	if exit := run([]string{"--help"}, noArm(), &stdout, &stderr); exit != 0 || !strings.Contains(stdout.String(), "--tls-client-ca FILE") {
		t.Errorf("%d, %s%s", exit, &stdout, &stderr)
	}
	if exit := run(nil, Policy{}, &stdout, &stderr); exit != 1 || !strings.Contains(stderr.String(), "invalid policy: no verb is declared") {
		t.Errorf("%d, %s", exit, &stderr)
	}
}

func TestTheEnvironmentSetsWhatIsNotGiven(t *testing.T) {
	for _, c := range []struct {
		variables map[string]string
		arguments string
		want      Options
		text      string
	}{
		{variables: map[string]string{
			"ADDRESS": "0.0.0.0:9000", "TLS_CERT": "c", "TLS_KEY": "k", "TLS_CLIENT_CA": "a", "ALLOW_UNAUTHENTICATED_BIND": "true",
			"METRICS_ADDRESS": "0.0.0.0:9090", "LOG_CALLS": "true",
		}, want: Options{
			Address: "0.0.0.0:9000", TLS: TLSFiles{Cert: "c", Key: "k", ClientCA: "a"}, AllowUnauthenticatedBind: true,
			MetricsAddress: "0.0.0.0:9090", LogCalls: true,
		}},
		{
			variables: map[string]string{"ADDRESS": "nonsense", "LOG_CALLS": "true", "TLS_CERT": ""},
			arguments: "--address 127.0.0.1:1 --log-calls=false", want: Options{Address: "127.0.0.1:1"},
		},
		{variables: map[string]string{"ADDRESS": "", "LOG_CALLS": "", "METRICS_ADDRESS": ""}},
		{variables: map[string]string{"ADDRESS": "localhost"}, text: `invalid value "localhost" of EXTENDER_POLICY_ADDRESS: expected HOST:PORT`},
		{variables: map[string]string{"LOG_CALLS": "yes"}, text: `invalid value "yes" of EXTENDER_POLICY_LOG_CALLS: expected true or false`},
	} {
		for _, option := range registered {
			variable := variableOf(option)
			t.Setenv(variable, c.variables[strings.TrimPrefix(variable, "EXTENDER_POLICY_")])
		}
		var stdout, stderr bytes.Buffer
		options := Options{Metrics: &counting{}}
		c.want.Metrics = options.Metrics
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		options.Register(flags)
		exit, stop := Parse(flags, strings.Fields(c.arguments), &options, &stdout, &stderr)
		switch {
		case c.text == "" && (stop || !reflect.DeepEqual(options, c.want)):
			t.Errorf("%v: %d, %s%+v; want %+v", c.variables, exit, &stderr, options, c.want)
		case c.text != "" && (!stop || exit != 2 || !strings.Contains(stderr.String(), c.text)):
			t.Errorf("%v: %d, %s; want %s", c.variables, exit, &stderr, c.text)
		}
	}
	var stdout bytes.Buffer
	run([]string{"--help"}, noArm(), &stdout, io.Discard)
	for _, option := range registered {
		if !strings.Contains(stdout.String(), "[env: "+variableOf(option)+"]") {
			t.Errorf("%s is missing in %s", option, &stdout)
		}
	}
}

func TestAnAddressOfMetricsThatIsInUseIsNamed(t *testing.T) {
	_, err := listen(noArm(), Options{Metrics: &counting{}, MetricsAddress: start(t, noArm()).address})
	if err == nil || !strings.Contains(err.Error(), "; set another --metrics-address, or stop the process") {
		t.Error(err)
	}
}

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.key, a.cert, a.pem = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

var serial int64

func (a *authority) sign(of *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial++
	of.SerialNumber, of.NotBefore, of.NotAfter = big.NewInt(serial), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	of.Subject = pkix.Name{CommonName: "test"}
	of.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	issuer, signer := a.cert, a.key
	if issuer == nil {
		issuer, signer = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, issuer, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, parsed, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair is a certificate and its key in PEM.
func (a *authority) pair() (cert, key []byte) {
	private, _, cert := a.sign(&x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestARotatedCertificateIsServedToNewConnections(t *testing.T) {
	servers, clients, dir := newAuthority(t), newAuthority(t), t.TempDir()
	cert, key := servers.pair()
	files := TLSFiles{
		Cert: write(t, filepath.Join(dir, "tls.crt"), cert), Key: write(t, filepath.Join(dir, "tls.key"), key),
		ClientCA: write(t, filepath.Join(dir, "ca.crt"), clients.pem),
	}
	var log syncBuffer
	s := startWith(t, noArm(), Options{TLS: files, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ask := func(trusted *authority, as *authority) error {
		pool := x509.NewCertPool()
		pool.AddCert(trusted.cert)
		config := &tls.Config{RootCAs: pool}
		if as != nil {
			pair, err := tls.X509KeyPair(as.pair())
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		connection, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		_, err = v1beta1.NewPolicyServiceClient(connection).GetInfo(within(t), &v1beta1.GetInfoRequest{})
		return err
	}
	if err := ask(servers, clients); err != nil {
		t.Fatal(err)
	}
	for _, as := range []*authority{nil, servers} {
		if err := ask(servers, as); status.Code(err) != codes.Unavailable {
			t.Errorf("a client without a certificate of the authority: %v", err)
		}
	}
	write(t, files.Cert, []byte("broken"))
	for range 2 {
		if err := ask(servers, clients); err != nil {
			t.Error(err)
		}
	}
	if count := strings.Count(log.String(), "the earlier ones stay in use"); count != 1 {
		t.Errorf("logged %d times: %s", count, log.String())
	}
	others := newAuthority(t)
	cert, key = others.pair()
	write(t, files.Key, key)
	write(t, files.Cert, cert)
	write(t, files.ClientCA, others.pem)
	if err := ask(others, others); err != nil {
		t.Error(err)
	}
	if err := ask(others, clients); status.Code(err) != codes.Unavailable {
		t.Errorf("a client of the earlier authority: %v", err)
	}
}

func TestAConnectionBeyondTheLimitIsClosed(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limit := &limited{Listener: inner, most: 1, logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	accepted := make(chan net.Conn)
	go func() {
		for {
			connection, err := limit.Accept()
			if err != nil {
				return
			}
			accepted <- connection
		}
	}()
	defer func() { _ = inner.Close() }()
	dial := func() net.Conn {
		connection, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		return connection
	}
	dial()
	first := <-accepted
	second := dial()
	_ = second.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := second.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the second connection: %v", err)
	}
	_ = first.Close()
	dial()
	<-accepted
}
