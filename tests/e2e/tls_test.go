package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/certificates"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

const caller = "system:kube-scheduler"

// secured is a gateway that serves TLS and requires client certificates.
type secured struct {
	*process.Server
	servers *certificates.Authority
	// shown is the gateway's certificate, own that of kube-scheduler.
	shown, own certificates.Identity
	trusted    string
	extenders  []configv1.Extender
	// logged is how long its log was before it started.
	logged int
}

func TestTheServersCertificateIsRotatedWhilePodsAreScheduled(t *testing.T) {
	forEach(t, "over TLS, with client certificates and HTTP/2: the server's certificate is rotated while pods are scheduled, and none fails", gatewayOnly, bothModes, func(s *scenario) {
		s.nodes(objects.Nodes(30))
		gateway := s.secured([]policy{refusing("rack-drain"), refusing("tenant-quota"), refusing("zone-preference")})
		scheduler, err := shared.StartScheduler(s.ctx, controlplane.SchedulerOptions{Extenders: gateway.extenders, Scores: controlplane.DefaultScores})
		s.must(err)
		defer s.showLog(scheduler.Process)
		replicas := objects.NewReplicaSet(shop, "ledger", map[string]string{"tier": "batch"})
		pods := replicas.Pods(30)
		s.pods(pods...)
		s.someOf(pods, "to be scheduled", isBound)
		pods = append(pods, s.rotated(gateway, replicas)...)
		s.expectScheduled(pods)
		// A kube-scheduler keeps its connection; another one gets the current certificate.
		s.must(scheduler.Kill())
		s.scheduler(gateway.extenders, controlplane.DefaultScores)
		late := replicas.Pods(30)
		s.pods(late...)
		s.expectScheduled(late)
		s.expectNoFailure(slices.Concat(pods, late))
		s.expectHTTP2(gateway, 2)
	})
}

// secured starts a gateway and has it print kube-scheduler's configuration for it, with further options.
func (s *scenario) secured(policies []policy, options ...string) secured {
	s.Helper()
	// The protocol of a connection is logged at this level.
	s.Setenv("RUST_LOG", "extender_gateway=debug")
	dir := s.TempDir()
	g := secured{servers: s.authority(dir, "servers"), trusted: filepath.Join(dir, "servers.crt"), shown: certificates.In(dir, "gateway"), own: certificates.In(dir, "scheduler")}
	s.issue(g.servers, g.shown, "gateway")
	s.issue(s.authority(dir, "callers"), g.own, caller)
	config := product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
	config.Extender.TLS = &product.TLS{
		CertFile: g.shown.CertFile, KeyFile: g.shown.KeyFile,
		ClientCAFile: filepath.Join(dir, "callers.crt"), AllowedNames: []string{caller},
	}
	g.logged = len(logOf(product.Gateway))
	g.Server = serveGateway(s, config)
	var err error
	options = append(options, "--url", "https://"+g.Address, "--ca-file", g.trusted, "--cert-file", g.own.CertFile, "--key-file", g.own.KeyFile)
	g.extenders, err = product.SchedulerConfig(s.ctx, shared.Dir, config, options...)
	s.must(err)
	if len(g.extenders) != 1 || !g.extenders[0].EnableHTTPS || g.extenders[0].TLSConfig == nil {
		s.Fatalf("the configuration for kube-scheduler is %+v", g.extenders)
	}
	return g
}

// rotated gives the gateway another certificate and creates pods until it is in use.
func (s *scenario) rotated(g secured, replicas objects.ReplicaSet) (pods []*corev1.Pod) {
	s.Helper()
	before := s.presented(s.ctx, g.Address, g.own)
	s.issue(g.servers, g.shown, "gateway, renewed")
	s.until("the new certificate to be shown", func(ctx context.Context) (bool, error) {
		pod := replicas.Pods(1)
		s.pods(pod...)
		pods = append(pods, pod...)
		return !s.presented(ctx, g.Address, g.own).Equal(before), nil
	}, func() string { return "the old one" })
	return pods
}

// presented is the certificate that a server presents to new callers, valid or not.
func (s *scenario) presented(ctx context.Context, address string, own certificates.Identity) *x509.Certificate {
	s.Helper()
	pair, err := tls.LoadX509KeyPair(own.CertFile, own.KeyFile)
	s.must(err)
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	s.must(err)
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

// expectNoFailure reports which pods were ever marked unschedulable.
func (s *scenario) expectNoFailure(pods []*corev1.Pod) {
	s.Helper()
	events, err := shared.Client.EventsV1().Events(shop).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	for _, event := range events.Items {
		ours := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == event.Regarding.Name })
		if ours && event.Reason == "FailedScheduling" {
			s.Errorf("%s was refused for a while: %s", event.Regarding.Name, event.Note)
		}
	}
}

// expectHTTP2 fails unless this many kube-schedulers used HTTP/2 and no client was rejected.
func (s *scenario) expectHTTP2(g secured, schedulers int) {
	s.Helper()
	log := logOf(product.Gateway)[g.logged:]
	if got := strings.Count(log, "a caller speaks HTTP/2"); got < schedulers {
		s.Errorf("%d connections spoke HTTP/2", got)
	}
	if strings.Contains(log, "TLS handshake failed") {
		s.Error("a handshake failed")
	}
}

// logOf is the log of a process so far.
func logOf(name string) string {
	text, err := os.ReadFile(filepath.Join(shared.Dir, name+".log"))
	if err != nil {
		return ""
	}
	return string(text)
}
