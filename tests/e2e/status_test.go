package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

const (
	noProblem       = 0
	podsNotPlaced   = 4
	rejectsAll      = "backend rejects every node for every pod"
	rejectsNoLonger = "backend no longer rejects every node"
)

func TestStatusTellsAnOutageFromOneThatIsOver(t *testing.T) {
	s := newScenario(t, "status says that a backend is down and what it means for pods, and afterwards that it is over", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(6))
	policies := []policy{refusing("tenant-quota")}
	backends := startBackends(s, policies)
	gateway := serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, backends)))
	s.scheduler(entriesOf(controlplane.ExtenderEntry(gateway.Address, s.mode)), controlplane.DefaultScores)
	admin := s.adminOf(gateway)
	victim := backends["tenant-quota"]
	s.must(victim.Kill())
	pods := objects.NewReplicaSet(shop, "reports", map[string]string{"tier": "batch"}).Pods(3)
	s.pods(pods...)
	for _, pod := range pods {
		s.refused(pod, corev1.PodReasonSchedulerError)
	}
	s.expectStatus(admin, podsNotPlaced, "ERROR ", "backend tenant-quota: cannot connect", "filter Fail: no pod that it matches is scheduled")

	startBackend(s, policies[0], victim.Address)
	s.bound(pods...)
	s.expectStatus(admin, noProblem, "RECENT ", "calls to filter failed until", "No problem.")
}

func TestStatusSeesAPolicyThatRefusesEverything(t *testing.T) {
	s := newScenario(t, "status says that a policy refuses every pod, although its answers are remembered, until it does no longer", gatewayFront{}, controlplane.Names)
	nodes := objects.Nodes(6)
	s.nodes(nodes)
	policies := []policy{refusing("misspelt-label")}
	gateway := serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies))))
	s.scheduler(entriesOf(controlplane.ExtenderEntry(gateway.Address, s.mode)), controlplane.DefaultScores)
	admin := s.adminOf(gateway)
	pods := objects.NewReplicaSet(shop, "checkout", nil).Pods(12)
	s.pods(pods...)
	for _, pod := range pods {
		s.refused(pod, corev1.PodReasonUnschedulable)
	}
	s.expectStatus(admin, podsNotPlaced, "ERROR ", "backend misspelt-label: it rejected every node in its latest", "about 12 pods", "; no node has the label acme.io/rak, which it reads", "no pod that it matches is scheduled")
	s.loggedOnce(gateway, rejectsAll, "misspelt-label")

	patch := []byte(`{"metadata":{"labels":{"acme.io/rak":"r1"}}}`)
	_, err := shared.Client.CoreV1().Nodes().Patch(s.ctx, nodes[0].Name, types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
	s.bound(pods...)
	s.expectStatus(admin, noProblem, "No problem.")
	s.loggedOnce(gateway, rejectsNoLonger, "misspelt-label")
}

// expectStatus waits until status prints all of this and ends with this exit code.
func (s *scenario) expectStatus(admin string, exitCode int, parts ...string) {
	s.Helper()
	var text string
	s.until(fmt.Sprintf("status to say %q and to end with %d", parts, exitCode), func(ctx context.Context) (bool, error) {
		var exit int
		var err error
		if text, exit, err = product.Status(ctx, admin); err != nil {
			return false, err
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return false, nil
			}
		}
		return exit == exitCode, nil
	}, func() string { return text })
	results.note("status:\n" + text)
}

// loggedOnce waits until a program's log, which several scenarios share, has a line with all of this, and expects no
// second one.
func (s *scenario) loggedOnce(program *process.Server, parts ...string) {
	s.Helper()
	var found []string
	s.until(fmt.Sprintf("a line with %q in %s", parts, program.LogFile), func(context.Context) (bool, error) {
		log, err := os.ReadFile(program.LogFile)
		found = slices.DeleteFunc(strings.Split(string(log), "\n"), func(line string) bool {
			return slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		})
		return len(found) > 0, err
	}, func() string { return "none" })
	if len(found) != 1 {
		s.Errorf("logged %d times: %q", len(found), found)
	}
}
