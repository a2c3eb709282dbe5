package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

func TestAnExpiredCertificateIsNamedBeforeAndAfterItsEnd(t *testing.T) {
	s := newScenario(t, "status names a certificate that ends soon, and the one because of which no pod is scheduled, until it is renewed", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(4))
	gateway := s.secured([]policy{refusing("tenant-quota")})
	admin, file := s.adminOf(gateway.Server), gateway.shown.certFile
	about := "extender.tls.certFile: " + file + ": certificate gateway "

	s.issueUntil(gateway.servers, gateway.shown, "gateway", time.Now().Add(50*time.Hour))
	s.expectStatus(admin, noProblem, "WARNING ", about+"expires in 2 d, on ")

	s.issueUntil(gateway.servers, gateway.shown, "gateway", time.Now().Add(-time.Hour))
	s.expectStatus(admin, podsNotPlaced, "ERROR ", about+"has expired on ", "kube-scheduler rejects the gateway, and no pod is scheduled")
	s.scheduler(gateway.extenders, controlplane.DefaultScores)
	pod := plainPod("web")
	s.pods(pod)
	if message := s.refused(pod, corev1.PodReasonSchedulerError); !strings.Contains(message, "certificate has expired") {
		t.Errorf("the pod's condition is %q", message)
	}

	s.issue(gateway.servers, gateway.shown, "gateway")
	s.bound(pod)
	s.expectStatus(admin, noProblem, "No problem.")
	s.loggedOnce(gateway.Server, "extender.tls.certFile: certificate gateway has expired on ", file)
	s.loggedOnce(gateway.Server, "extender.tls.certFile: certificate gateway was renewed", file)
}
