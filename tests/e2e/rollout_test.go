package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/scripted"
)

// rejection is the reason of a policy that rejects every node.
const rejection = "rack is being drained"

// rejectingGateway is a gateway that kube-scheduler calls, and its only policy, which rejects every node.
type rejectingGateway struct {
	*called
	policy *scriptedPolicy
}

// reject starts them, with further settings of the policy's entry. Pods that wait are tried again when their reason is gone.
func (s *scenario) reject(set func(*product.Backend)) rejectingGateway {
	s.Helper()
	s.nodes(objects.Nodes(12))
	policy := s.startScripted()
	policy.Become(scripted.RejectBecause(rejection))
	entry := backend("http://"+policy.address, "Fail")
	set(&entry)
	config := product.NewConfig(shared.Cluster, s.mode, []product.Backend{entry})
	config.Requeue, config.Extender.Socket = "PodCondition", s.socket
	dir, err := os.MkdirTemp(shared.Dir, "rollout-")
	s.must(err)
	gateway, err := product.StartGateway(s.ctx, dir, config)
	s.must(err)
	s.keep(gateway)
	return rejectingGateway{s.callGateway(gateway), policy}
}

func isRejected(pod *corev1.Pod) bool { return scheduled(pod).Reason == corev1.PodReasonUnschedulable }

func TestACanaryCountsForAShareOfTheOwners(t *testing.T) {
	forEach(t, "a canary rejects all pods of some owners and none of others, and the differences are counted", nightlyDoors, namesOnly, func(s *scenario) {
		c := s.reject(func(entry *product.Backend) { entry.Canary = &product.Canary{Percent: 50} })
		// That all of them are treated alike by chance happens once in eight million times.
		owners := make([][]*corev1.Pod, 24)
		for i := range owners {
			owners[i] = objects.NewReplicaSet(shop, fmt.Sprintf("reports-%02d", i), nil).Pods(3)
		}
		pods := slices.Concat(owners...)
		c.pods(pods...)
		c.untilEach(pods, "bound or rejected", func(pod *corev1.Pod) bool { return isBound(pod) || isRejected(pod) })
		var bound, rejected []*corev1.Pod
		for _, owner := range owners {
			now := c.current(c.ctx, owner)
			switch placed := len(slices.DeleteFunc(slices.Clone(now), isRejected)); placed {
			case 0:
				rejected = append(rejected, now...)
			case len(now):
				bound = append(bound, now...)
			default:
				c.Errorf("%d of %d pods of %s are bound", placed, len(now), now[0].OwnerReferences[0].UID)
			}
		}
		if len(bound) == 0 || len(rejected) == 0 {
			c.Fatalf("%d pods are bound and %d rejected", len(bound), len(rejected))
		}
		c.expectEvidence(c.gateway, c.admin, bound[0], evidence{
			exit:    podsNotPlaced,
			status:  []string{"no pod of its canary share is scheduled; "},
			row:     regexp.MustCompile(`racks +http://\S+ +Enforce for 50 % of pods +connected`),
			explain: []string{bound[0].Name + " is on "},
			metrics: []metric{
				{`extender_gateway_backend_shadow_answers_total{backend="racks",verb="filter",outcome="disagrees"}`, atLeast(float64(len(bound)))},
				waitingPods(len(rejected)),
			},
		})
		c.expectExplain(c.admin, rejected[0], noProblem, rejected[0].Name+" is not scheduled", rejection)
	})
}

// untilEach waits until the condition holds for each of the pods.
func (s *scenario) untilEach(pods []*corev1.Pod, what string, has func(*corev1.Pod) bool) {
	s.Helper()
	var others []*corev1.Pod
	s.until("all pods to be "+what, func(ctx context.Context) (bool, error) {
		others = slices.DeleteFunc(s.current(ctx, pods), has)
		return len(others) == 0, nil
	}, func() string { return describe(others[0]) })
}

const shareExceeded = `extender_gateway_backend_reject_share_exceeded{backend="racks"}`

// createUntil creates pods, one after the other has been decided, until a series has such a value.
func (c *called) createUntil(want metric) (pods []*corev1.Pod) {
	c.Helper()
	metrics, err := c.gateway.Line(c.ctx, "metrics listening on ")
	c.must(err)
	c.until("a value of "+want.series, func(ctx context.Context) (bool, error) {
		pod := tiny()
		c.pods(pod)
		pods = append(pods, pod)
		c.untilEach(pods[len(pods)-1:], "decided", func(pod *corev1.Pod) bool { return isBound(pod) || isRejected(pod) })
		values, err := product.Metrics(ctx, metrics)
		value, found := values[want.series]
		return found && want.is(value), err
	}, func() string { return "another one" })
	return pods
}

func TestTooManyRejectionsAreReported(t *testing.T) {
	s := newScenario(t, "a policy that rejects more than its maxRejectShare is reported until it rejects less", gatewayFront{}, controlplane.Names)
	c := s.reject(func(entry *product.Backend) {
		entry.MaxRejectShare = &product.MaxRejectShare{Share: 0.5, Window: "2s"}
	})
	pods := c.createUntil(metric{shareExceeded, equals(1)})
	// The pods are of one workload: that no other one is scheduled is not known.
	c.expectEvidence(c.gateway, c.admin, pods[0], evidence{
		status:  []string{"WARNING ", "decisions about ", " pods of ReplicaSet shop/tiny-", "racks: it rejects 100 % of the nodes, more than maxRejectShare 0.5, since ", "docs/runbook.md#backend-rejects-too-many-nodes"},
		explain: []string{pods[0].Name + " is not scheduled", rejection},
		log:     []logLine{once("WARN", "backend rejects too many nodes")},
	})
	c.policy.Become(scripted.Accept)
	c.createUntil(metric{shareExceeded, equals(0)})
	c.logged(c.gateway, once("INFO", "backend no longer rejects too many nodes"))
}

func TestTooManyRejectionsPutAPolicyIntoShadow(t *testing.T) {
	forEach(t, "a policy that rejects more than its maxRejectShare goes into shadow, and its pods are scheduled", nightlyDoors, namesOnly, func(s *scenario) {
		c := s.reject(func(entry *product.Backend) {
			entry.MaxRejectShare = &product.MaxRejectShare{Share: 0.5, Window: "2s", OnExcess: "Shadow", ShadowFor: "10m"}
		})
		pods := c.createUntil(metric{overrideEnd, atLeast(1)})
		c.bound(pods...)
		c.expectEvidence(c.gateway, c.admin, pods[0], evidence{
			status: []string{
				"WARNING ", "backend racks: mode Shadow in place of the configured one until ", "it rejected 100 % of the nodes, more than maxRejectShare 0.5",
				"correct its rules before its answers count",
				"Shadow until ", "docs/runbook.md#mode-overridden",
			},
			explain: []string{pods[0].Name + " is on "},
			log:     []logLine{once("WARN", "mode overridden", "maxRejectShare")},
		})
	})
}

const overrideEnd = `extender_gateway_backend_override_end_timestamp_seconds{backend="racks",mode="Shadow"}`

func TestAnOverrideEndsByItself(t *testing.T) {
	forEach(t, "a command takes a policy out for some seconds: pods are scheduled, and later rejected again", nightlyDoors, namesOnly, func(s *scenario) {
		c := s.reject(func(*product.Backend) {})
		waits := tiny()
		c.pods(waits)
		c.refused(waits, corev1.PodReasonUnschedulable)
		text, exit, err := product.SetMode(c.ctx, c.admin, "racks", "shadow", "--for", "6s", "--reason", "it drains all racks")
		c.must(err)
		if exit != 0 {
			c.Fatalf("exit code %d: %s", exit, text)
		}
		results.note("backend racks shadow:\n" + text)
		c.expectStatus(c.admin, noProblem, "WARNING ", "backend racks: mode Shadow in place of the configured one until ", "it drains all racks")
		c.boundTo(waits)
		c.logged(c.gateway, once("override of the mode ended"))
		again := tiny()
		c.pods(again)
		c.refused(again, corev1.PodReasonUnschedulable)
		c.expectExplain(c.admin, again, noProblem, again.Name+" is not scheduled", rejection)
		c.logged(c.gateway, once("mode overridden", "it drains all racks"))
	})
}
