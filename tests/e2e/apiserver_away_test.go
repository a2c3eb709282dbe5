package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// After 20 seconds, the pauses between two attempts to reach the apiserver no longer grow.
var longOutage = regexp.MustCompile(`ERROR .*: the apiserver: no connection for ([2-9]\d|\d{3,}) s: (.*)`)

func TestNodesAreWatchedAgainWhenTheAPIServerIsBack(t *testing.T) {
	forEach(t, "new nodes are known soon after the apiserver is back, and what was wrong is shown meanwhile", nightlyDoors, namesOnly, func(s *scenario) {
		nodes := objects.Nodes(4)
		s.nodes(nodes[:3])
		policies := []policy{refusing("tenant-quota")}
		dir, err := os.MkdirTemp(shared.Dir, "apiserver-away-")
		s.must(err)
		config := product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
		config.Extender.Socket = s.socket
		gateway, err := product.StartGateway(s.ctx, dir, config)
		s.must(err)
		s.keep(gateway)
		admin, extenders := s.adminOf(gateway), entriesOf(controlplane.ExtenderEntry(gateway.Address, s.mode))
		earlier := s.placedEarlier(controlplane.SchedulerOptions{Extenders: extenders})
		s.must(shared.RestartAPIServer(s.ctx, func() {
			found := s.statusWith(admin, longOutage)
			if want := "cannot connect to " + shared.REST.Host + ": connection refused"; found[2] != want {
				s.Errorf("%q instead of %q", found[2], want)
			}
			s.expectEvidence(gateway, admin, earlier, evidence{
				exit: 4,
				status: []string{
					"no pod at all is scheduled, with or without the gateway, and running pods go on; decisions use the last known nodes and pods",
					"check that kube-apiserver runs and that the gateway reaches it", "docs/runbook.md#apiserver-away",
				},
				explain: []string{"location unknown", "nodes were offered", "No data from the apiserver: "},
				metrics: []metric{{"extender_gateway_nodes_watch_failing", equals(1)}},
				log:     []logLine{once("WARN", "cannot watch nodes; the last known ones stay in use")},
			})
		}))
		ready := time.Now()
		s.nodes(nodes[3:])
		s.statusWith(admin, regexp.MustCompile(`nodes +4 from Watch`))
		results.note(fmt.Sprintf("the new node was known %.1f s after the apiserver was ready", time.Since(ready).Seconds()))
		s.scheduler(extenders, controlplane.DefaultScores)
		pod := plainPod("late")
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: nodes[3].Name}
		s.expectAllOn(nodes[3], []*corev1.Pod{pod})
		s.expectEvidence(gateway, admin, pod, evidence{
			status:  []string{"No problem."},
			explain: []string{pod.Name + " is on " + nodes[3].Name},
			metrics: []metric{{"extender_gateway_nodes_watch_failing", equals(0)}},
			log:     []logLine{once("INFO", "watch of nodes recovered")},
		})
	})
}

// placedEarlier is a pod that a kube-scheduler has placed, which does not run any more: it would take longer than the
// gateway to come back.
func (s *scenario) placedEarlier(options controlplane.SchedulerOptions) *corev1.Pod {
	s.Helper()
	scheduler := s.startScheduler(options)
	pod := plainPod("early")
	s.pods(pod)
	s.boundTo(pod)
	s.must(scheduler.Kill())
	return pod
}

// statusWith waits until status prints a match of this, and returns its groups.
func (s *scenario) statusWith(admin string, what *regexp.Regexp) (found []string) {
	s.Helper()
	var text string
	s.until("status to print "+what.String(), func(ctx context.Context) (bool, error) {
		var err error
		text, _, err = product.Status(ctx, admin)
		found = what.FindStringSubmatch(text)
		return found != nil, err
	}, func() string { return text })
	return found
}
