package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/controlplane"
)

const (
	costArgs     = `{"pools": {"spot": {"price": 0.03, "per": "cpu"}, "standard": {"price": 0.4}}}`
	licencesArgs = `{"productLabel": "product", "hostGroupLabel": "group"}`
	binderArgs   = `{"labels": ["zone"]}`

	// licenceTables is a database in memory with the tables of the sample.
	licenceTables = "jdbc:h2:mem:licences;DB_CLOSE_DELAY=-1;INIT=RUNSCRIPT FROM 'classpath:licences.sql'"
)

// samples are the policies that need something else besides the gateway: a cluster, a database, Prometheus.
func samples(cluster *cluster) []backend {
	binder := ready("label-binder", constant(binderArgs)).with("--kubeconfig", cluster.Kubeconfig)
	binder.bind = cluster.pod("labels", nil)
	gpus := example("go", "gpu-share", "").with("--kubeconfig", cluster.Kubeconfig)
	gpus.bind = cluster.pod("gpus", corev1.ResourceList{gpuMemory: resource.MustParse("3")})
	load := example("python", "load-aware", "")
	load.args = func(t *testing.T) string { return fmt.Sprintf(`{"prometheusUrl": %q}`, prometheus(t)) }
	return []backend{
		binder,
		gpus,
		load,
		example("typescript", "node-cost", costArgs).knowing("spot", "standard"),
		example("java", "licences", licencesArgs).with("--database", licenceTables),
	}
}

// prometheus answers each query with one series. The samples' own tests have a real one.
func prometheus(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		const form = `{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"node": "node-0"}, "value": [%d, "1"]}]}}`
		_, _ = fmt.Fprintf(w, form, time.Now().Unix())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The resources of gpu-share.
const gpuMemory, gpuCount corev1.ResourceName = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"

// cluster is a control plane with one node, for the backends that bind.
type cluster struct {
	*controlplane.Cluster
	t *testing.T
}

const onlyNode = "conformance"

func newCluster(t *testing.T) *cluster {
	t.Helper()
	for _, program := range []string{binaries.Etcd, binaries.APIServer, binaries.Scheduler} {
		binaries.Program(t, program)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	started, err := controlplane.Start(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(); err != nil {
			t.Error(err)
		}
	})
	nodes := started.Client.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: onlyNode, Labels: map[string]string{"zone": "a"}}}
	if node, err = nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node.Status.Allocatable = corev1.ResourceList{gpuCount: resource.MustParse("2"), gpuMemory: resource.MustParse("20")}
	node.Status.Capacity = node.Status.Allocatable
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return &cluster{started, t}
}

// pod creates a pod with these limits, and returns it as the suite's option --bind.
func (c *cluster) pod(name string, limits corev1.ResourceList) string {
	c.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Limits: limits}}},
	}}
	created, err := c.Client.CoreV1().Pods(pod.Namespace).Create(c.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("%s/%s/%s/%s", created.Namespace, created.Name, created.UID, onlyNode)
}
