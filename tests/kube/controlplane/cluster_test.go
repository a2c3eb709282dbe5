package controlplane

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/kube/objects"
)

func startCluster(t *testing.T) (context.Context, *Cluster) {
	t.Helper()
	// Kubernetes may have to be compiled first; go test's own timeout applies.
	c, err := Start(t.Context(), t.TempDir())
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx, c
}

func TestControlPlane(t *testing.T) {
	ctx, c := startCluster(t)
	t.Run("nodes keep the status they are created with", func(t *testing.T) {
		if err := objects.CreateNodes(ctx, c.Client, objects.Nodes(3)); err != nil {
			t.Fatal(err)
		}
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(nodes.Items) != 3 || len(nodes.Items[0].Status.Images) == 0 || len(nodes.Items[0].Spec.Taints) > 0 {
			t.Errorf("%v %+v", err, nodes.Items)
		}
	})
	t.Run("a scheduler can be stopped and another one started", func(t *testing.T) {
		for _, options := range []SchedulerOptions{{}, {Scores: ExtenderScoresOnly, APICalls: DefaultLimit}} {
			scheduler, err := c.StartScheduler(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			if err := scheduler.Kill(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a scheduler that refuses its configuration says why", func(t *testing.T) {
		entry := ExtenderEntry("127.0.0.1:1", Names)
		entry.Weight = 0
		_, err := c.StartScheduler(ctx, SchedulerOptions{Extenders: []configv1.Extender{entry}})
		if err == nil || !strings.Contains(err.Error(), "must have a positive weight") {
			t.Errorf("got %v", err)
		}
	})
}
