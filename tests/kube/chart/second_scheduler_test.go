package chart

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

const (
	second     = "policy-scheduler"
	secondUser = "system:serviceaccount:extender-gateway:" + second
	team       = "team"
)

// TestSecondScheduler applies deploy/install.yaml and deploy/kube-scheduler/second-scheduler, and runs what they install: the
// gateway and the second scheduler, each with a token of exactly its account, beside a default scheduler without extenders.
func TestSecondScheduler(t *testing.T) {
	install := manifests(t, read(t, deploy+"/install.yaml"))
	folder := folder(t, "second-scheduler")
	apply(t, install)
	apply(t, folder)
	createPods(t, folder)
	dir := t.TempDir()
	printed := entriesOf(t, dir, dataOf(t, install, "gateway.yaml"), "http://extender-gateway.extender-gateway.svc:8888")
	expectEntries(t, second, schedulerConfig(t, dataOf(t, folder, "config.yaml")).Extenders, printed)
	labels := map[string]string{"extender-gateway.io/scheduler": second}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team, Labels: labels}}
	_, err := shared.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	must(t, err)

	t.Run("admission", expectAdmission)
	t.Run("scheduling", func(t *testing.T) { expectTwoSchedulers(t, dir, install, folder) })
}

// expectAdmission creates pods in a namespace that is labelled for the second scheduler.
func expectAdmission(t *testing.T) {
	chosen := teamPod("default")
	// The apiserver learns of policies and labels a moment after they were created.
	untilTrue(t, "a pod gets the name of the second scheduler", func() bool {
		created, err := dryRun(t, chosen)
		return err == nil && created.Spec.SchedulerName == second
	})
	untilTrue(t, "a pod of another scheduler is rejected", func() bool {
		other := teamPod("other")
		other.Spec.SchedulerName = "other-scheduler"
		_, err := dryRun(t, other)
		return err != nil && strings.Contains(err.Error(), "spec.schedulerName is other-scheduler: pods in this namespace need policy-scheduler")
	})
	placed := teamPod("placed")
	placed.Spec.NodeName = "node-0"
	if _, err := dryRun(t, placed); err == nil || !strings.Contains(err.Error(), "spec.nodeName is set") {
		t.Errorf("a pod with a node: %v", err)
	}
	mirror := teamPod("mirror")
	mirror.Spec.NodeName = "node-0"
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "of-a-kubelet"}
	if _, err := dryRun(t, mirror); err == nil || !strings.Contains(err.Error(), "spec.nodeName is set") {
		t.Errorf("a pod of anybody with the annotation of mirror pods: %v", err)
	}
	client := kubelet(t)
	untilTrue(t, "a kubelet may create its mirror pods", func() bool {
		_, err := dryRunBy(t, client, mirror)
		return err == nil
	})
	elsewhere := podOf("elsewhere")
	created, err := dryRun(t, elsewhere)
	must(t, err)
	if created.Spec.SchedulerName != corev1.DefaultSchedulerName {
		t.Errorf("in a namespace without the label the scheduler is %s", created.Spec.SchedulerName)
	}
}

// expectTwoSchedulers schedules pods while only the default scheduler runs, while both do, and while the gateway is away.
func expectTwoSchedulers(t *testing.T, dir string, install, folder []*unstructured.Unstructured) {
	policy := startRules(t, dir)
	gateway := serve(t, dir, dataOf(t, install, "gateway.yaml"), kubeconfigOfAccount(t, dir, "extender-gateway", "extender-gateway"), policy.Address)

	byDefault, err := shared.StartScheduler(t.Context(), controlplane.SchedulerOptions{})
	must(t, err)
	stopAtEnd(t, byDefault.Process)
	early, plain := teamPod("early"), podOf("plain")
	create(t, early, plain)
	until(t, plain, "bound", isBound)
	if now := get(t, early); now.Spec.NodeName != "" || condition(now).Type != "" {
		t.Errorf("the default scheduler does not ignore a pod of the second: %+v", now.Spec)
	}

	config := schedulerConfig(t, dataOf(t, folder, "config.yaml"))
	config.Extenders[0].URLPrefix = "http://" + gateway.Address
	startSecond(t, dir, binaries.Scheduler, config, kubeconfigOfAccount(t, dir, "extender-gateway", second))
	until(t, early, "bound", isBound)
	refused := teamPod("refused")
	create(t, refused)
	until(t, refused, "refused", func(pod *corev1.Pod) bool { return strings.Contains(condition(pod).Message, reason) })

	must(t, gateway.Kill())
	waiting, another := teamPod("waiting"), podOf("another")
	create(t, waiting, another)
	until(t, another, "bound", isBound)
	until(t, waiting, "waiting for the gateway", func(pod *corev1.Pod) bool { return strings.Contains(condition(pod).Message, "connection refused") })
	expectRequests(t)
}

// TestSecondSchedulerOfTheChart runs what secondScheduler.enabled installs: the gateway and kube-scheduler with the plugin, which have
// an account and a folder in common, as the containers of a pod.
func TestSecondSchedulerOfTheChart(t *testing.T) {
	const namespace = "beside"
	createNamespace(t, namespace)
	list := template(t, namespace, deploy+"/chart/ci/second-scheduler-values.yaml")
	apply(t, list)
	dir := t.TempDir()
	here := strings.NewReplacer("/run/extender-gateway", dir)
	kubeconfig := kubeconfigOfAccount(t, dir, namespace, "extender-gateway")
	serve(t, dir, here.Replace(dataOf(t, list, "gateway.yaml")), kubeconfig, startRules(t, dir).Address)

	config := schedulerConfig(t, here.Replace(dataOf(t, list, "scheduler.yaml")))
	expectProfile(t, filepath.Join(dir, "gateway.yaml"), *config)
	startSecond(t, dir, binaries.PluginScheduler, config, kubeconfig, "--authentication-skip-lookup")
	accepted, refused := podOf("accepted"), podOf("refused")
	accepted.Spec.SchedulerName, refused.Spec.SchedulerName = second, second
	create(t, accepted, refused)
	until(t, accepted, "bound", isBound)
	until(t, refused, "refused", func(pod *corev1.Pod) bool { return strings.Contains(condition(pod).Message, reason) })
	if _, denied := requests(t, "system:serviceaccount:"+namespace+":extender-gateway"); len(denied) > 0 {
		t.Errorf("refused: %v", denied)
	}
}

// expectProfile expects the profile that the gateway prints for its configuration, with the name of the second scheduler, and no extenders.
func expectProfile(t *testing.T, file string, config configv1.KubeSchedulerConfiguration) {
	t.Helper()
	path, err := product.Binary(product.Gateway)
	must(t, err)
	printed := schedulerConfig(t, output(t, path, "scheduler-config", "--config", file, "--door", "plugin"))
	printed.Profiles[0].SchedulerName = &config.LeaderElection.ResourceName
	if !reflect.DeepEqual(printed.Profiles, config.Profiles) || len(config.Extenders) > 0 {
		t.Errorf("the chart has the extenders %v and another profile than the gateway prints: %s", config.Extenders, diff.Diff(printed.Profiles, config.Profiles))
	}
}

// startRules runs the policy with the rules of the tests.
func startRules(t *testing.T, dir string) *process.Server {
	t.Helper()
	file := filepath.Join(dir, "rules.yaml")
	must(t, os.WriteFile(file, []byte(dataOf(t, manifests(t, read(t, "testdata/rules.yaml")), "rules.yaml")), 0o600))
	policy, err := product.StartLabelRules(t.Context(), dir, "rules", file, "127.0.0.1:0")
	must(t, err)
	stopAtEnd(t, policy.Process)
	return policy
}

// startSecond runs the second scheduler with the configuration of its ConfigMap. Only the gateway's address and the
// kubeconfig, in place of the mounted token, differ from those in a cluster.
func startSecond(t *testing.T, dir, program string, config *configv1.KubeSchedulerConfiguration, kubeconfig string, more ...string) {
	t.Helper()
	config.ClientConnection.Kubeconfig = kubeconfig
	out, err := yaml.Marshal(config)
	must(t, err)
	file := filepath.Join(dir, "scheduler.yaml")
	must(t, os.WriteFile(file, out, 0o600))
	// In a pod both are the mounted token by default.
	flags := append(more, "--config="+file, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	scheduler, err := shared.RunScheduler(t.Context(), second, program, flags...)
	must(t, err)
	stopAtEnd(t, scheduler.Process)
}

// expectRequests expects that nothing was refused to the second scheduler, and that it used its own lease and no other.
func expectRequests(t *testing.T) {
	used, denied := requests(t, secondUser)
	if len(denied) > 0 {
		t.Errorf("refused: %v", denied)
	}
	for _, request := range []string{"create leases", "create pods/binding", "get configmaps", "watch nodes", "watch pods"} {
		if !slices.Contains(used, request) {
			t.Errorf("the second scheduler did not %s: %v", request, used)
		}
	}
	for _, event := range audited(t, secondUser) {
		lease := event.ObjectRef
		if lease.Resource == "leases" && (lease.Namespace != "extender-gateway" || lease.Name != "" && lease.Name != second) {
			t.Errorf("it used the lease %s/%s", lease.Namespace, lease.Name)
		}
	}
	t.Logf("the second scheduler asked for: %s", strings.Join(used, ", "))
}

// folder are the manifests of a folder of deploy/kube-scheduler.
func folder(t *testing.T, name string) (list []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob(deploy + "/kube-scheduler/" + name + "/*.yaml")
	must(t, err)
	below, err := filepath.Glob(deploy + "/kube-scheduler/" + name + "/*/*.yaml")
	must(t, err)
	for _, file := range append(files, below...) {
		list = append(list, manifests(t, read(t, file))...)
	}
	return list
}

// entriesOf are the entries that scheduler-config prints for this configuration.
func entriesOf(t *testing.T, dir, config, url string, options ...string) []configv1.Extender {
	t.Helper()
	file := filepath.Join(dir, "printed.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	return entries(t, file, url, options...)
}

func expectEntries(t *testing.T, of string, is, want []configv1.Extender) {
	t.Helper()
	if !reflect.DeepEqual(is, want) {
		t.Errorf("%s has the extenders %+v, scheduler-config prints %+v", of, is, want)
	}
}

func schedulerConfig(t *testing.T, text string) *configv1.KubeSchedulerConfiguration {
	t.Helper()
	config := &configv1.KubeSchedulerConfiguration{}
	must(t, yaml.UnmarshalStrict([]byte(text), config))
	return config
}

// teamPod is one that a Deployment in the namespace of the second scheduler would have.
func teamPod(app string) *corev1.Pod {
	return objects.NewReplicaSet(team, app, nil).Pod()
}

func create(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	must(t, objects.CreatePods(t.Context(), shared.Client, pods))
}

func get(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	now, err := shared.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	must(t, err)
	return now
}

func isBound(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

func dryRun(t *testing.T, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return dryRunBy(t, shared.Client, pod)
}

// kubelet is a client with the identity of a node.
func kubelet(t *testing.T) kubernetes.Interface {
	t.Helper()
	// The Node authorizer, which the apiserver of the tests does not run, lets each of them create pods.
	nodes := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubelets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	}
	_, err := shared.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), nodes, metav1.CreateOptions{})
	must(t, err)
	config := rest.CopyConfig(shared.REST)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:node-0", Groups: []string{"system:nodes", "system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

func dryRunBy(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func untilTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(forAPod); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", forAPod, what)
		}
	}
}
