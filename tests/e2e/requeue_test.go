package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// Rules that no node meets, and rules that each node meets.
const (
	noNode    = "rules:\n- require: [{key: acme.io/rak, exists: true}]\n  reason: node is in no rack\n"
	everyNode = "rules:\n- require: [{key: kubernetes.io/hostname, exists: true}]\n  reason: node is in no rack\n"
)

const requeued = "extender-gateway.io/Requeued"

// waiting is a policy whose rules no node meets, a gateway in front of it, and pods that wait because of it.
type waiting struct {
	*scenario
	rules   string
	policy  *process.Server
	config  product.Config
	file    string
	gateway *process.Server
	pods    []*corev1.Pod
}

func (s *scenario) startWaiting(requeue string, pods int) *waiting {
	s.Helper()
	w := &waiting{scenario: s, rules: filepath.Join(s.TempDir(), "rules.yaml")}
	s.nodes(objects.Nodes(12))
	w.write(noNode)
	w.startPolicy("127.0.0.1:0")
	filter := &product.Filter{Timeout: backendTimeout}
	backends := []product.Backend{{Name: "racks", URL: "http://" + w.policy.Address, Filter: filter}}
	w.config = product.NewConfig(shared.Cluster, s.mode, backends)
	w.config.Requeue, w.config.Extender.Socket = requeue, s.socket
	binary, err := product.Binary(product.Gateway)
	s.must(err)
	w.gateway, w.file, err = product.StartGatewayOfFile(s.ctx, binary, s.TempDir(), w.config)
	s.must(err)
	s.keep(w.gateway)
	s.scheduler(entriesOf(controlplane.ExtenderEntry(w.gateway.Address, s.mode)), controlplane.DefaultScores)
	for range pods {
		w.pods = append(w.pods, tiny())
	}
	s.pods(w.pods...)
	w.untilAll("refused", func(pod *corev1.Pod) bool { return scheduled(pod).Reason == corev1.PodReasonUnschedulable })
	return w
}

func (w *waiting) startPolicy(address string) {
	w.Helper()
	server, err := product.StartLabelRules(w.ctx, shared.Dir, "racks", w.rules, address)
	w.must(err)
	w.keep(server)
	w.policy = server
}

// write replaces the rules.
func (w *waiting) write(rules string) {
	w.Helper()
	next := w.rules + ".next"
	w.must(os.WriteFile(next, []byte(rules), 0o600))
	w.must(os.Rename(next, w.rules))
}

// untilAll waits until all pods are like this.
func (w *waiting) untilAll(what string, is func(*corev1.Pod) bool) {
	w.Helper()
	count := 0
	w.until(fmt.Sprintf("%d pods to be %s", len(w.pods), what), func(ctx context.Context) (bool, error) {
		list, err := shared.Client.CoreV1().Pods(shop).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		count = 0
		for i := range list.Items {
			if is(&list.Items[i]) {
				count++
			}
		}
		return count == len(w.pods), nil
	}, func() string { return fmt.Sprintf("%d are", count) })
}

// expectBack expects all pods to be bound after the change, and notes how long that took.
func (w *waiting) expectBack(change string) {
	w.Helper()
	began := time.Now()
	w.untilAll("bound", isBound)
	results.note(fmt.Sprintf("%d pods were bound %.1f s after: %s", len(w.pods), time.Since(began).Seconds(), change))
}

// requests is how many pods the gateway has updated.
func (w *waiting) requests() (count int) {
	w.Helper()
	text := w.status("-o", "json")
	_, after, _ := strings.Cut(text, `"requeuedPods": `)
	_, err := fmt.Sscan(after, &count)
	if err != nil {
		w.Fatalf("no requeuedPods in %s: %v", text, err)
	}
	return count
}

func (w *waiting) status(options ...string) string {
	w.Helper()
	text, _, err := product.Status(w.ctx, w.adminOf(w.gateway), options...)
	w.must(err)
	return text
}

func TestRequeueBringsPodsBack(t *testing.T) {
	for _, change := range []struct {
		what string
		make func(*waiting)
	}{
		{"the policy got other rules", func(w *waiting) { w.write(everyNode) }},
		{"the policy left Enforce", func(w *waiting) {
			w.config.Backends[0].Mode = "Shadow"
			w.must(w.config.Replace(w.file))
		}},
		{"the policy came back with other rules", func(w *waiting) {
			w.must(w.policy.Kill())
			w.write(everyNode)
			w.startPolicy(w.policy.Address)
		}},
	} {
		t.Run(change.what, func(t *testing.T) {
			forEach(t, "pods come back when "+change.what, bothDoors, namesOnly, func(s *scenario) {
				w := s.startWaiting("PodCondition", 20)
				change.make(w)
				w.expectBack(change.what)
				w.expectConditions()
			})
		})
	}
}

func TestRequeueOfAThousandPods(t *testing.T) {
	w := newScenario(t, "1,000 pods come back, and nothing is written while none waits", gatewayFront{}, controlplane.Names).startWaiting("PodCondition", 1000)
	w.write(everyNode)
	w.expectBack("the policy got other rules")
	w.expectConditions()
	before := w.requests()
	if before == 0 || before > len(w.pods) {
		t.Errorf("%d updates of %d pods", before, len(w.pods))
	}
	revision := w.revision()
	w.write(noNode)
	w.until("another revision", func(context.Context) (bool, error) { return w.revision() != revision, nil }, w.revision)
	if after := w.requests(); after != before {
		t.Errorf("%d updates while no pod waited", after-before)
	}
}

func TestWithoutRequeueOneUpdateOfANodeBringsPodsBack(t *testing.T) {
	forEach(t, "without requeue, status and explain say that pods wait, and the command that they name brings them back", nightlyDoors, namesOnly, func(s *scenario) {
		w := s.startWaiting("", 20)
		admin := w.adminOf(w.gateway)
		// All are pods of one workload, which may be at a limit of its own.
		w.expectStatus(admin, noProblem, "WARNING ", "decisions about 20 pods of ReplicaSet shop/tiny-", "its further pods are not scheduled; 20 pods wait, the oldest for ")
		w.write(everyNode)
		w.expectStatus(admin, noProblem, "WARNING ", "20 pods wait for an event of the cluster, although backend racks recovered or changed", "extender-gateway status --retry")
		s.expectExplain(admin, w.pods[0], noProblem, "is not scheduled", "racks has recovered or changed ",
			"after this attempt: kube-scheduler tries the pod again at the next event, in 5.5 min at most, or now after `extender-gateway status --retry`")
		patch := []byte(`{"metadata":{"annotations":{"extender-gateway.io/retry":"now"}}}`)
		_, err := shared.Client.CoreV1().Nodes().Patch(w.ctx, objects.Nodes(1)[0].Name, types.MergePatchType, patch, metav1.PatchOptions{})
		w.must(err)
		w.expectBack("a node was annotated")
		w.expectStatus(admin, noProblem, "No problem.")
		for _, pod := range w.current(w.ctx, w.pods) {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == requeued {
					s.Errorf("%s has a condition: %s", pod.Name, condition.Message)
				}
			}
		}
	})
}

// expectConditions expects that some pods have the condition, which names its cause, and none of them twice.
func (w *waiting) expectConditions() {
	w.Helper()
	found := 0
	for _, pod := range w.current(w.ctx, w.pods) {
		for _, condition := range pod.Status.Conditions {
			if condition.Type != requeued {
				continue
			}
			found++
			if condition.Status != corev1.ConditionTrue || condition.Reason == "" || !strings.Contains(condition.Message, "racks") {
				w.Errorf("%s: %s %s: %s", pod.Name, condition.Status, condition.Reason, condition.Message)
			}
		}
	}
	if found == 0 || found > len(w.pods) {
		w.Errorf("%d conditions of %d pods", found, len(w.pods))
	}
}

// revision is the policy's, as the gateway knows it.
func (w *waiting) revision() string {
	w.Helper()
	_, after, _ := strings.Cut(w.status("-o", "json"), `"revision": "`)
	revision, _, _ := strings.Cut(after, `"`)
	return revision
}
