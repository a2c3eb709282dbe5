package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

func TestAnExpiredCertificateIsNamedBeforeAndAfterItsEnd(t *testing.T) {
	s := newScenario(t, "status names a certificate that ends soon, and the one because of which no pod is scheduled, until it is renewed", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(4))
	gateway := s.secured([]policy{refusing("tenant-quota")})
	admin, file := s.adminOf(gateway.Server), gateway.shown.CertFile
	about := "extender.tls.certFile: " + file + ": certificate gateway "
	expiry := fmt.Sprintf(`extender_gateway_certificate_expiry_timestamp_seconds{field="extender.tls.certFile",file=%q}`, file)

	s.issueUntil(gateway.servers, gateway.shown, "gateway", time.Now().Add(50*time.Hour))
	s.expectStatus(admin, noProblem, "WARNING ", about+"expires in 2 d, on ")

	s.issueUntil(gateway.servers, gateway.shown, "gateway", time.Now().Add(-time.Hour))
	s.expectStatus(admin, podsNotPlaced, "ERROR ", file+" was refused: certificate gateway has expired on ", "the previous certificates stay in use")

	end := s.usedUntil(gateway, expiry)
	s.expectStatus(admin, podsNotPlaced, "ERROR ", about+"has expired on ")
	s.scheduler(gateway.extenders, controlplane.DefaultScores)
	pod := plainPod("web")
	s.pods(pod)
	s.refused(pod, corev1.PodReasonSchedulerError)
	s.expectEvidence(gateway.Server, admin, pod, evidence{
		exit: podsNotPlaced,
		status: []string{
			"ERROR ", about + "has expired on ", "kube-scheduler rejects the gateway from its next connection on, within 10 minutes; then no pod is scheduled",
			"renew it; the changed file is read without a restart", "docs/runbook.md#certificate-expires",
		},
		explain: []string{"web", "is not scheduled", "the attempt ended with an error before the gateway was called", "certificate has expired"},
		metrics: []metric{
			{expiry, equals(float64(end.Unix()))},
			{`extender_gateway_tls_handshake_failures_total{cause="own_certificate_rejected"}`, atLeast(1)},
		},
		log: []logLine{once("extender.tls.certFile: certificate gateway has expired on ", file)},
	})

	s.issue(gateway.servers, gateway.shown, "gateway")
	s.bound(pod)
	s.expectEvidence(gateway.Server, admin, pod, evidence{
		status:  []string{"No problem."},
		explain: []string{pod.Name + " is on "},
		metrics: []metric{{expiry, atLeast(float64(time.Now().Unix()))}},
		log:     []logLine{once("INFO", "extender.tls.certFile: certificate gateway was renewed", file)},
	})
}

// usedUntil gives the gateway a certificate that it uses until this end, which this metric has: one that has expired before it is read is
// refused, and then the next one is valid for longer.
func (s *scenario) usedUntil(g secured, expiry string) (end time.Time) {
	s.Helper()
	address, err := g.Line(s.ctx, "metrics listening on ")
	s.must(err)
	valid := 5 * time.Second
	s.until("a certificate to be used before its end", func(ctx context.Context) (bool, error) {
		if time.Now().After(end) {
			valid *= 2
			end = time.Now().Add(valid).Truncate(time.Second)
			s.issueUntil(g.servers, g.shown, "gateway", end)
		}
		values, err := product.Metrics(ctx, address)
		return values[expiry] == float64(end.Unix()) && s.presented(ctx, g.Address, g.own).NotAfter.Equal(end), err
	}, func() string { return "another one than that until " + end.String() })
	return end
}
