package observability

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// traffic creates pods, which kube-scheduler has the gateway decide.
func (s *scene) traffic() {
	s.Helper()
	s.must(objects.CreatePods(s.ctx, s.cluster.Client, objects.NewReplicaSet(shop, "checkout", nil).Pods(2)))
}

// trouble brings about what a healthy gateway does not count.
func (s *scene) trouble() {
	s.Helper()
	s.speakWithoutTLS()
	s.bindWithoutBinder()
	s.occupyAdmin()
	s.refuseRequeues()
	s.overload()
	s.overrideMode()
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

// startOther runs a second replica, whose configuration has a mistake: no binder.
func (s *scene) startOther() {
	s.Helper()
	away, err := s.cluster.UnusedAddress()
	s.must(err)
	config := product.NewConfig(nil, controlplane.FullObjects, []product.Backend{{Name: "away", URL: "http://" + away, Filter: &product.Filter{}}})
	config.Extender.MaxRequestBytes, config.Extender.MaxBytesInFlight = fewBytes, fewBytes
	other, err := product.StartGateway(s.ctx, s.dir, config)
	s.must(err)
	s.other = s.keep(other)
}

// fewBytes is the limit of the other replica for one body and for all of them.
const fewBytes = "64Ki"

// overload begins a call to the other replica whose body does not end, and makes others until one is refused.
func (s *scene) overload() {
	s.Helper()
	connection, err := net.Dial("tcp", s.other.Address)
	s.must(err)
	s.Cleanup(func() { _ = connection.Close() })
	const most = 60_000
	_, err = fmt.Fprintf(connection, "POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n%s", most, strings.Repeat(" ", most/2))
	s.must(err)
	metrics, err := s.other.Line(s.ctx, "metrics listening on ")
	s.must(err)
	s.must(s.other.Until(s.ctx, "a refused call", func(ctx context.Context) error {
		answer, err := http.Post("http://"+s.other.Address+"/filter", "application/json", strings.NewReader(strings.Repeat(" ", most)))
		if err != nil {
			return err
		}
		values, err := product.Metrics(ctx, metrics)
		if err == nil && values[`extender_gateway_calls_total{verb="filter",outcome="overload"}`] < 1 {
			err = errors.New("none is refused")
		}
		return errors.Join(err, answer.Body.Close())
	}))
}

// overrideMode sets the modes of two backends, in one of the replicas, to those that they have.
func (s *scene) overrideMode() {
	s.Helper()
	admin, err := s.gateway.Line(s.ctx, "admin listening on ")
	s.must(err)
	for backend, mode := range map[string]string{"zones": "enforce", "canary": "shadow"} {
		text, exit, err := product.SetMode(s.ctx, admin, backend, mode, "--for", "30m", "--reason", "a test")
		s.must(err)
		if exit != 0 {
			s.Fatalf("exit code %d: %s", exit, text)
		}
	}
}

// bindWithoutBinder calls the other replica, which answers with an error.
func (s *scene) bindWithoutBinder() {
	s.Helper()
	const call = `{"PodName": "web-0", "PodNamespace": "shop", "PodUID": "u-1", "Node": "a"}`
	answer, err := http.Post("http://"+s.other.Address+"/bind", "application/json", strings.NewReader(call))
	s.must(err)
	text, err := io.ReadAll(answer.Body)
	s.must(errors.Join(err, answer.Body.Close()))
	if !strings.Contains(string(text), "bind is not configured") {
		s.Fatalf("bind without a binder: %s", text)
	}
}

// The admin address takes at most this many connections.
const adminConnections = 64

// occupyAdmin opens more connections than the admin address of the other replica takes.
func (s *scene) occupyAdmin() {
	s.Helper()
	admin, err := s.other.Line(s.ctx, "admin listening on ")
	s.must(err)
	for range adminConnections + 8 {
		connection, err := net.Dial("tcp", admin)
		s.must(err)
		s.Cleanup(func() { _ = connection.Close() })
	}
}

// refuseRequeues has the apiserver refuse the updates with which the gateway requeues a pod, and changes the rules because
// of which one waits.
func (s *scene) refuseRequeues() {
	s.Helper()
	s.denyRequeues()
	pod := objects.NewReplicaSet(full, "reports", nil).Pod()
	s.must(objects.CreatePods(s.ctx, s.cluster.Client, []*corev1.Pod{pod}))
	s.must(s.gateway.Until(s.ctx, "denied updates", s.requeuesAreDenied))
	metrics, err := s.gateway.Line(s.ctx, "metrics listening on ")
	s.must(err)
	s.must(s.gateway.Until(s.ctx, "a waiting pod", func(ctx context.Context) error {
		values, err := product.Metrics(ctx, metrics)
		if err == nil && values[`extender_gateway_backend_waiting_pods{backend="quota"}`] < 1 {
			err = errors.New("no pod waits")
		}
		return err
	}))
	s.writeQuota("the quota of the namespace is used up again")
}

// writeQuota has the backend quota reject every node for pods of namespace full.
func (s *scene) writeQuota(reason string) {
	s.Helper()
	rules := "rules:\n- pods: {namespaces: [" + full + "]}\n" +
		"  require: [{key: kubernetes.io/arch, notIn: [amd64]}]\n  reason: " + reason + "\n"
	s.must(os.WriteFile(s.quotaRules()+".next", []byte(rules), 0o600))
	s.must(os.Rename(s.quotaRules()+".next", s.quotaRules()))
}

const requeued = "extender-gateway.io/Requeued"

// denyRequeues makes a policy of the apiserver.
func (s *scene) denyRequeues() {
	s.Helper()
	api, name := s.cluster.Client.AdmissionregistrationV1(), metav1.ObjectMeta{Name: "no-requeues"}
	_, err := api.ValidatingAdmissionPolicies().Create(s.ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/status"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: "!has(object.status.conditions) || !object.status.conditions.exists(it, it.type == '" + requeued + "')",
			}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(s.ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	s.must(err)
}

// requeuesAreDenied is nil when the policy is in effect, which is some time after it was made.
func (s *scene) requeuesAreDenied(ctx context.Context) error {
	pods := s.cluster.Client.CoreV1().Pods(full)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pod := &list.Items[0]
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: requeued, Status: corev1.ConditionTrue})
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		return errors.New("the update is accepted")
	}
	if !strings.Contains(err.Error(), "no-requeues") {
		return err
	}
	return nil
}
