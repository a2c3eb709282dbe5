package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app/cmd"
	kubeadmconfig "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	k8syaml "sigs.k8s.io/yaml"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/ports"
)

// TestKind follows docs/quickstart.md without containers. kube-scheduler runs as kubeadm configures it for
// deploy/kind/cluster.yaml; a pod waits until deploy/kind/start-gateway has run; the policy then refuses another pod, until a
// node has the label that its rule requires.
func TestKind(t *testing.T) {
	node := newKindNode(t)
	node.startScheduler(t)
	early := podOf("early")
	create(t, early)
	until(t, early, "waiting for the gateway", func(pod *corev1.Pod) bool { return strings.Contains(condition(pod).Message, "connection refused") })

	apply(t, manifests(t, read(t, deploy+"/kube-scheduler/control-plane/rbac.yaml")))
	node.startGateway(t)
	until(t, early, "bound", isBound)
	training := podOf("training")
	create(t, training)
	until(t, training, "refused", func(pod *corev1.Pod) bool { return strings.Contains(condition(pod).Message, "rules: node has no GPU") })
	expectExplained(t, node.admin.Address(), training)

	t.Cleanup(func() { labelNode(t, "null") })
	changes := 0
	// A change can reach kube-scheduler before the gateway, and the pod is refused once more. The next change helps.
	untilTrue(t, "the pod is bound to a node with a GPU", func() bool {
		changes++
		labelNode(t, fmt.Sprintf(`"%d"`, changes))
		return isBound(get(t, training))
	})
}

// expectExplained expects explain to name the rule.
func expectExplained(t *testing.T, admin string, pod *corev1.Pod) {
	t.Helper()
	said, code, err := product.ExplainToPeople(t.Context(), shared.Kubeconfig, admin, pod)
	must(t, err)
	if code != 0 || !strings.Contains(said, "node has no GPU (rule training needs a GPU)") {
		t.Errorf("explain ends with %d: %s", code, said)
	}
}

// labelNode sets the label of the quickstart on one of the nodes.
func labelNode(t *testing.T, value string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	nodes, err := shared.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(t, err)
	patch := fmt.Sprintf(`{"metadata": {"labels": {"example.com/gpu": %s}}}`, value)
	_, err = shared.Client.CoreV1().Nodes().Patch(ctx, nodes.Items[0].Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

// kindNode is the control plane node of deploy/kind/cluster.yaml.
type kindNode struct {
	dir string
	// kubeadm is the configuration that kind writes to /kind/kubeadm.conf.
	kubeadm string
	// here replaces paths of the node by paths below dir.
	here *strings.Replacer
	// The addresses in place of 127.0.0.1:8888 and 127.0.0.1:9403.
	gateway, admin ports.Port
}

func newKindNode(t *testing.T) kindNode {
	t.Helper()
	node := kindNode{dir: t.TempDir(), gateway: reserve(t), admin: reserve(t)}
	for _, folder := range []string{"/kind", etc + "/manifests"} {
		must(t, os.MkdirAll(node.dir+folder, 0o755))
	}
	configured := controlPlaneOfKind(t)
	for _, mount := range configured.ExtraMounts {
		node.mount(t, mount)
	}
	node.here = strings.NewReplacer("/deploy/", node.dir+"/deploy/", etc, node.dir+etc, "/kind/", node.dir+"/kind/")
	node.kubeadm = kubeadmConfig(t, configured.KubeadmConfigPatches)
	must(t, os.WriteFile(node.dir+"/kind/kubeadm.conf", []byte(node.kubeadm), 0o600))
	kubeconfigOfUser(t, node.dir+etc+"/scheduler.conf", "system:kube-scheduler")
	return node
}

// controlPlaneOfKind decodes the configuration of the cluster as kind does.
func controlPlaneOfKind(t *testing.T) v1alpha4.Node {
	t.Helper()
	var cluster v1alpha4.Cluster
	decoder := yaml.NewDecoder(strings.NewReader(read(t, deploy+"/kind/cluster.yaml")))
	decoder.KnownFields(true)
	must(t, decoder.Decode(&cluster))
	first := cluster.Nodes[0]
	if cluster.Name != "quickstart" || cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || first.Role != v1alpha4.ControlPlaneRole {
		t.Fatalf("%+v", cluster)
	}
	return first
}

// mount makes a file or folder of the repository appear where kind mounts it.
func (n kindNode) mount(t *testing.T, mount v1alpha4.Mount) {
	t.Helper()
	from, err := filepath.Abs(filepath.Join(deploy, "..", mount.HostPath))
	must(t, err)
	if _, err := os.Stat(from); err != nil || !mount.Readonly {
		t.Errorf("%+v is missing, or may be written: %v", mount, err)
	}
	to := n.dir + mount.ContainerPath
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	must(t, os.Symlink(from, to))
}

func reserve(t *testing.T) ports.Port {
	t.Helper()
	port, err := ports.Reserve(ports.ReuseAddress)
	must(t, err)
	t.Cleanup(port.Release)
	return port
}

// kubeadmConfig applies the patches to a configuration like kind's.
func kubeadmConfig(t *testing.T, patches []string) string {
	t.Helper()
	init, err := k8syaml.YAMLToJSON([]byte(`
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 172.18.0.2, bindPort: 6443}
nodeRegistration: {name: quickstart-control-plane, criSocket: "unix:///run/containerd/containerd.sock"}
skipPhases: [preflight]`))
	must(t, err)
	for _, patch := range patches {
		patch, err := k8syaml.YAMLToJSON([]byte(patch))
		must(t, err)
		init, err = jsonpatch.MergePatch(init, patch)
		must(t, err)
	}
	return fmt.Sprintf(`%s
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.37.0
controlPlaneEndpoint: quickstart-control-plane:6443
certificatesDir: %s
`, init, shared.authority)
}

// schedulerPod is the static pod of kube-scheduler that `kubeadm init` writes.
func (n kindNode) schedulerPod(t *testing.T) *corev1.Pod {
	t.Helper()
	config, err := kubeadmconfig.BytesToInitConfiguration([]byte(n.kubeadm), true)
	must(t, err)
	if config.Patches == nil {
		t.Fatal("kubeadm gets no patches")
	}
	return schedulerPod(t, config, n.here.Replace(config.Patches.Directory))
}

// startScheduler runs kube-scheduler as its static pod does.
func (n kindNode) startScheduler(t *testing.T) {
	t.Helper()
	const file = etc + "/kube-scheduler/config.yaml"
	config := strings.ReplaceAll(n.here.Replace(read(t, n.here.Replace(file))), "127.0.0.1:8888", n.gateway.Address())
	changed := filepath.Join(n.dir, "scheduler-config.yaml")
	must(t, os.WriteFile(changed, []byte(config), 0o600))
	var flags []string
	for _, flag := range n.schedulerPod(t).Spec.Containers[0].Command[1:] {
		flags = append(flags, n.here.Replace(strings.ReplaceAll(flag, file, changed)))
	}
	scheduler, err := shared.RunScheduler(t.Context(), "kube-scheduler-of-kind", binaries.Scheduler, flags...)
	must(t, err)
	stopAtEnd(t, scheduler.Process)
}

// startGateway runs deploy/kind/start-gateway, and then the containers of the static pod that it installs.
func (n kindNode) startGateway(t *testing.T) {
	t.Helper()
	n.runScript(t)
	folder := n.here.Replace(etc + "/extender-gateway")
	made, err := clientcmd.LoadFromFile(folder + "/kubeconfig")
	must(t, err)
	kubeconfigOf(t, folder+"/kubeconfig", made.AuthInfos["extender-gateway"])

	pod := podFrom(t, n.here.Replace(etc+"/manifests/extender-gateway.yaml"))
	policy := startContainer(t, n.dir, pod.Spec.Containers[1], n.here.Replace, "listening on")
	addresses := strings.NewReplacer("127.0.0.1:8888", n.gateway.Address(), "127.0.0.1:9402", "127.0.0.1:0",
		"127.0.0.1:9403", n.admin.Address(), "127.0.0.1:9000", policy.Address)
	text := addresses.Replace(n.here.Replace(read(t, folder+"/gateway.yaml")))
	must(t, os.WriteFile(folder+"/gateway.yaml", []byte(text), 0o600))
	startContainer(t, n.dir, pod.Spec.Containers[0], n.here.Replace, "extender listening on")
}

// runScript runs deploy/kind/start-gateway with the real kubeadm. Only a group is not set, which needs root.
func (n kindNode) runScript(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	programs := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(programs, "kubeadm")))
	script := strings.ReplaceAll(read(t, deploy+"/kind/start-gateway"), " -g 65532 ", " ")
	command := exec.CommandContext(t.Context(), "sh", "-c", n.here.Replace(script))
	command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// runKubeadm makes this program be kubeadm, if it was started by that name.
func runKubeadm() {
	if err := kubeadm.NewKubeadmCommand(os.Stdin, os.Stdout, os.Stderr).Execute(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
