package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/process"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// etc is the folder of a control plane node that a test has elsewhere.
const etc = "/etc/kubernetes"

// TestControlPlane runs what deploy/kube-scheduler/control-plane makes the kubelet of a node run: the gateway and a policy of
// the static pod, and the kube-scheduler of kubeadm with the patch of deploy/kube-scheduler/kubeadm. Each has the
// kubeconfig that kubeadm makes for its user.
func TestControlPlane(t *testing.T) {
	apply(t, manifests(t, read(t, deploy+"/kube-scheduler/control-plane/rbac.yaml")))
	pod := podFrom(t, deploy+"/kube-scheduler/control-plane/extender-gateway.yaml")
	expectAdmitted(t, pod)
	expectOwnFolders(t, pod)

	node := newControlPlaneNode(t)
	gateway := node.startPod(t, pod)
	expectPrinted(t, "control-plane/scheduler-config.yaml", read(t, deploy+"/kube-scheduler/control-plane/gateway.yaml"), "http://127.0.0.1:8888")
	node.startScheduler(t, gateway)
	refused, accepted := podOf("refused"), podOf("accepted")
	create(t, refused, accepted)
	until(t, accepted, "bound", isBound)
	until(t, refused, "refused", func(pod *corev1.Pod) bool { return strings.Contains(condition(pod).Message, reason) })

	used, denied := requests(t, "extender-gateway")
	if want := []string{"list nodes", "watch nodes"}; !slices.Equal(used, want) || len(denied) > 0 {
		t.Errorf("the gateway asked for %v, and was refused %v", used, denied)
	}
	if _, denied := requests(t, "system:kube-scheduler"); len(denied) > 0 {
		t.Errorf("kube-scheduler was refused %v", denied)
	}
}

// TestControlPlaneWithThePlugin expects the patch of deploy/kube-scheduler/plugin to fit to kubeadm's pod and to the gateway's.
func TestControlPlaneWithThePlugin(t *testing.T) {
	patches := t.TempDir()
	for _, folder := range []string{"kubeadm", "plugin"} {
		must(t, os.CopyFS(patches, os.DirFS(deploy+"/kube-scheduler/"+folder)))
	}
	pod := schedulerPod(t, initConfiguration(t), patches)
	expectAdmitted(t, pod)
	socket := pod.Spec.Volumes[len(pod.Spec.Volumes)-1]
	isShared := slices.ContainsFunc(podFrom(t, deploy+"/kube-scheduler/control-plane/extender-gateway.yaml").Spec.Volumes, func(of corev1.Volume) bool {
		return of.Name == "socket" && of.HostPath.Path == socket.HostPath.Path
	})
	if !isShared || *pod.Spec.SecurityContext.RunAsUser != 0 || !strings.Contains(pod.Spec.Containers[0].Image, "extender-gateway-kube-scheduler:") {
		t.Errorf("%+v", pod.Spec)
	}
}

// expectAdmitted creates the pod in a dry run, as the kubelet does with the mirror of a static pod.
func expectAdmitted(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	created, err := shared.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod.DeepCopy(), options)
	must(t, err)
	if created.Spec.Priority == nil || *created.Spec.Priority < 2_000_000_000 {
		t.Errorf("its priority is %v", created.Spec.Priority)
	}
}

// expectOwnFolders expects that a policy does not see the gateway's kubeconfig, and that nothing is written but the socket.
func expectOwnFolders(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	seen := map[string]bool{}
	for _, container := range pod.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			if seen[mount.MountPath] || mount.ReadOnly == (mount.Name == "socket") {
				t.Errorf("%s mounts %s, which is shared or may be written", container.Name, mount.MountPath)
			}
			seen[mount.MountPath] = true
		}
	}
}

// expectPrinted expects a KubeSchedulerConfiguration of deploy/kube-scheduler to have the entries that scheduler-config
// prints for a configuration of the gateway.
func expectPrinted(t *testing.T, file, config, url string, options ...string) {
	t.Helper()
	is := schedulerConfig(t, read(t, deploy+"/kube-scheduler/"+file)).Extenders
	expectEntries(t, file, is, entriesOf(t, t.TempDir(), config, url, options...))
}

// controlPlaneNode has the files that docs/control-plane.md puts below /etc/kubernetes.
type controlPlaneNode struct {
	dir string
}

func newControlPlaneNode(t *testing.T) controlPlaneNode {
	t.Helper()
	node := controlPlaneNode{t.TempDir()}
	for _, folder := range []string{"extender-gateway", "extender-policies", "kube-scheduler"} {
		must(t, os.Mkdir(filepath.Join(node.dir, folder), 0o755))
	}
	kubeconfigOfUser(t, filepath.Join(node.dir, "scheduler.conf"), "system:kube-scheduler")
	kubeconfigOfUser(t, filepath.Join(node.dir, "extender-gateway/kubeconfig"), "extender-gateway")
	rules := dataOf(t, manifests(t, read(t, "testdata/rules.yaml")), "rules.yaml")
	must(t, os.WriteFile(filepath.Join(node.dir, "extender-policies/rules.yaml"), []byte(rules), 0o600))
	return node
}

// here is a text of a node, with this folder in place of /etc/kubernetes.
func (n controlPlaneNode) here(text string) string {
	return strings.ReplaceAll(text, etc, n.dir)
}

// startPod runs the containers of the pod, the policy at another address, and returns the gateway.
func (n controlPlaneNode) startPod(t *testing.T, pod *corev1.Pod) *process.Server {
	t.Helper()
	gateway, policy := pod.Spec.Containers[0], pod.Spec.Containers[1]
	rules := startContainer(t, n.dir, policy, n.here, "listening on")
	text := n.here(read(t, deploy+"/kube-scheduler/control-plane/gateway.yaml"))
	kubeconfig := n.here(etc + "/extender-gateway/kubeconfig")
	if !strings.Contains(text, kubeconfig) {
		t.Errorf("gateway.yaml names another kubeconfig than %s", kubeconfig)
	}
	writeConfig(t, filepath.Join(n.dir, "extender-gateway/gateway.yaml"), text, kubeconfig, rules.Address)
	return startContainer(t, n.dir, gateway, n.here, "extender listening on")
}

// startContainer runs a container of the static pod with the paths of this machine, a policy at a free port.
func startContainer(t *testing.T, dir string, container corev1.Container, here func(string) string, announcement string) *process.Server {
	t.Helper()
	args := slices.Concat(container.Command[1:], container.Args)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(here(arg), "127.0.0.1:9000", "127.0.0.1:0")
	}
	return startProgram(t, dir, container.Command[0], announcement, args...)
}

// startScheduler runs kube-scheduler as kubeadm's static pod does, with the address of this gateway.
func (n controlPlaneNode) startScheduler(t *testing.T, gateway *process.Server) {
	t.Helper()
	container := schedulerPod(t, initConfiguration(t), deploy+"/kube-scheduler/kubeadm").Spec.Containers[0]
	mounted := slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.MountPath == etc+"/kube-scheduler" && mount.ReadOnly })
	if !mounted {
		t.Errorf("the folder of the configuration is not mounted: %v", container.VolumeMounts)
	}
	config := n.here(read(t, deploy+"/kube-scheduler/control-plane/scheduler-config.yaml"))
	config = strings.ReplaceAll(config, "127.0.0.1:8888", gateway.Address)
	must(t, os.WriteFile(filepath.Join(n.dir, "kube-scheduler/config.yaml"), []byte(config), 0o600))
	var flags []string
	for _, flag := range container.Command[1:] {
		flags = append(flags, n.here(flag))
	}
	scheduler, err := shared.RunScheduler(t.Context(), "kube-scheduler-of-kubeadm", binaries.Scheduler, flags...)
	must(t, err)
	stopAtEnd(t, scheduler.Process)
}
