package observability

import (
	"net/http"

	"extender-gateway.io/tests/kube/objects"
)

// traffic creates pods, which kube-scheduler has the gateway decide.
func (s *scene) traffic(round int) {
	s.Helper()
	s.must(objects.CreatePods(s.ctx, s.cluster.Client, objects.NewReplicaSet(shop, "checkout", nil).Pods(2)))
	if round < 2 {
		s.must(objects.CreatePods(s.ctx, s.cluster.Client, objects.NewReplicaSet(full, "reports", nil).Pods(1)))
	}
}

// trouble brings about what a healthy gateway does not count.
func (s *scene) trouble() {
	s.Helper()
	s.speakWithoutTLS()
}

// speakWithoutTLS is a failed handshake.
func (s *scene) speakWithoutTLS() {
	s.Helper()
	answer, err := http.Get("http://" + s.gateway.Address + "/filter")
	s.must(err)
	s.must(answer.Body.Close())
	if answer.StatusCode != http.StatusBadRequest {
		s.Fatalf("an answer without TLS: %s", answer.Status)
	}
}
