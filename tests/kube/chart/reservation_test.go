package chart

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
)

// TestAccountOfReservation runs the policy of Reservations, the CustomResourceDefinition and the account of which are from the
// chart, until an owner has the room that was reserved, and until another Reservation has expired.
func TestAccountOfReservation(t *testing.T) {
	const namespace, account = "reserving", "extender-gateway-reservation"
	createNamespace(t, namespace)
	list := template(t, namespace, "testdata/reservation-values.yaml")
	apply(t, list)
	api, err := product.InstallReservations(t.Context(), shared.Client)
	must(t, err)
	dir := t.TempDir()
	policy := startProgram(t, dir, product.Policies, "listening on", product.ReservationPolicy, "--address", "127.0.0.1:0",
		"--kubeconfig", kubeconfigOfAccount(t, dir, namespace, account), "--lease-namespace", namespace)
	fit, err := product.StartNodePolicy(t.Context(), dir, product.NodeResources)
	must(t, err)
	stopAtEnd(t, fit.Process)
	kubeconfig := kubeconfigOfAccount(t, dir, namespace, "extender-gateway")
	gateway := serve(t, dir, dataOf(t, list, "gateway.yaml"), kubeconfig, policy.Address, fit.Address)
	scheduler, err := shared.StartScheduler(t.Context(), controlplane.SchedulerOptions{
		Extenders: entries(t, filepath.Join(dir, "gateway.yaml"), "http://"+gateway.Address),
	})
	must(t, err)
	stopAtEnd(t, scheduler.Process)

	owner := podOf("owner")
	requests := owner.Spec.Containers[0].Resources.Requests
	kept := product.NewReservation("kept", requests, metav1.LabelSelector{MatchLabels: owner.Labels}, owner.Namespace)
	brief := product.NewReservation("brief", requests, metav1.LabelSelector{MatchLabels: map[string]string{"app": "nobody"}}, owner.Namespace)
	brief.Spec.TTL = "3s"
	must(t, api.Create(t.Context(), kept))
	must(t, api.Create(t.Context(), brief))
	untilPhase(t, api, "kept", "Available")
	create(t, owner)
	until(t, owner, "bound", isBound)
	untilPhase(t, api, "kept", "Succeeded")
	untilPhase(t, api, "brief", "Failed")

	used, denied := requestsUntil(t, "system:serviceaccount:"+namespace+":"+account, "patch nodes")
	if len(denied) > 0 {
		t.Errorf("refused: %v", denied)
	}
	// Objects are read one by one only after conflicts and restarts.
	used = slices.DeleteFunc(used, func(request string) bool {
		return slices.Contains([]string{"get nodes", "get pods", "get reservations"}, request)
	})
	want := []string{
		"create leases", "create pods", "create pods/binding", "delete pods", "get leases", "list nodes", "list pods", "list reservations",
		"patch nodes", "patch pods", "update leases", "update reservations/status", "watch nodes", "watch pods", "watch reservations",
	}
	if !slices.Equal(used, want) {
		t.Errorf("the policy asked for %v, not for %v", used, want)
	}
}

func untilPhase(t *testing.T, api *product.Reservations, name, phase string) {
	t.Helper()
	var seen string
	for deadline := time.Now().Add(forAPod); ; time.Sleep(50 * time.Millisecond) {
		all, err := api.List(t.Context())
		must(t, err)
		for _, item := range all {
			if item.Metadata.Name != name {
				continue
			}
			if item.Status.Phase == phase {
				return
			}
			seen = fmt.Sprintf("%+v", item.Status)
		}
		if time.Now().After(deadline) {
			t.Fatalf("Reservation %s is not %s within %v: %s", name, phase, forAPod, seen)
		}
	}
}

// requestsUntil is requests after this one was seen.
func requestsUntil(t *testing.T, user, last string) (used, denied []string) {
	t.Helper()
	for deadline := time.Now().Add(forAPod); ; time.Sleep(50 * time.Millisecond) {
		if used, denied = requests(t, user); slices.Contains(used, last) || time.Now().After(deadline) {
			return used, denied
		}
	}
}
