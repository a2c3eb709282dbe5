// Package schedulerperf is kube-scheduler's own benchmark, scheduler_perf of Kubernetes: without extenders, with the gateway behind the plugin
// and behind HTTP, and with an extender that does nothing. The harness runs kube-apiserver and kube-scheduler in its own process.
package schedulerperf

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"extender-gateway.io/plugin"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

var (
	nodes = flag.Int("nodes", 0, "nodes, instead of Kubernetes' number")
	pods  = flag.Int("pods", 0, "measured pods, and pods before them, instead of Kubernetes' numbers")
	// rejected are the labels of nodes that the policies reject, as in bench/pods: half of the nodes together.
	rejected = [][2]string{{objects.RackLabel, "rack-2"}, {objects.TenantLabel, "tenant-3"}, {objects.InstanceTypeLabel, "i4i.2xlarge"}}
)

func TestMain(m *testing.M) {
	// One iteration is what the harness needs. The packages of tests/ find programs from that folder.
	if err := cmp.Or(flag.Set("test.benchtime", "1x"), perf.InitTests(), os.Chdir("../..")); err != nil {
		panic(err)
	}
	m.Run()
}

func check(tb interface{ Fatal(...any) }, err error) {
	if err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkPerfScheduling has below it a contender's name and then, as in Kubernetes, those of the case and of the workload.
func BenchmarkPerfScheduling(b *testing.B) {
	built, err := binaries.Build(b.Context(), binaries.Etcd)
	check(b, err)
	b.Setenv("PATH", filepath.Dir(built[binaries.Etcd])+":"+os.Getenv("PATH"))
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	check(b, err)
	harness := strings.TrimSpace(string(module)) + "/test/integration/scheduler_perf"
	for _, contender := range []string{"none", "plugin", "http", "echo"} {
		b.Run(contender, func(b *testing.B) { run(b, contender, harness) })
	}
}

// run runs the cases with a contender. They are as Kubernetes has them, with another configuration of kube-scheduler.
func run(b *testing.B, contender, harness string) {
	dir, err := os.MkdirTemp(os.Getenv("ARTIFACTS"), contender+"-")
	check(b, err)
	s, cases := &stage{contender: contender, dir: dir}, ""
	for _, of := range [][2]string{{"misc", "SchedulingBasic"}, {"topology_spreading", "TopologySpreading"}} {
		text, err := os.ReadFile(filepath.Join(harness, of[0], "performance-config.yaml"))
		check(b, err)
		name := "- name: " + of[1] + "\n"
		cases += strings.NewReplacer("../templates", harness+"/templates", name, name+"  schedulerConfigPath: "+dir+"/scheduler.yaml\n").Replace(string(text))
	}
	check(b, os.WriteFile(dir+"/cases.yaml", []byte(cases), 0o644))
	// The plugin without its preemption, which no case needs.
	registry := frameworkruntime.Registry{plugin.Name: func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return plugin.New(ctx, args, handle)
	}}
	perf.RunBenchmarkPerfScheduling(b, dir+"/cases.yaml", contender, registry,
		perf.WithPreRunFn(s.beforeScheduler), perf.WithPrepareFn(s.afterScheduler), perf.WithNodeUpdateFn(s.setLabels))
}

// change sets what the flags change of Kubernetes' workload. The threshold is for Kubernetes' machines: it is reported, and fails nothing.
func change(b *testing.B, w *perf.Workload) (report func()) {
	threshold, params := w.Threshold.Get(""), map[string]int{"initNodes": *nodes, "initPods": *pods, "measurePods": *pods}
	if *nodes+*pods > 0 {
		threshold = 0
	}
	for name, value := range params {
		given, err := w.GetParam(name)
		check(b, err)
		params[name] = cmp.Or(value, given)
	}
	text, _ := json.Marshal(params)
	check(b, w.Params.UnmarshalJSON(text))
	check(b, w.Threshold.UnmarshalJSON([]byte("0")))
	return func() {
		b.ReportMetric(threshold, "threshold")
		b.ReportMetric(float64(params["initNodes"]), "nodes")
		b.ReportMetric(float64(params["measurePods"]), "pods")
	}
}

// The profile is that of docs/plugin.md without preemption.
const (
	head    = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	profile = head + `profiles: [{plugins: {multiPoint: {enabled: [{name: ExtenderGateway, weight: 10}]}, filter: {enabled: [{name: ExtenderGateway}]},
bind: {enabled: [{name: ExtenderGateway}]}}, pluginConfig: [{name: ExtenderGateway, args: {socket: %q}}]}]`
	extender = head + `extenders: [{urlPrefix: "http://%s", filterVerb: filter, prioritizeVerb: prioritize, weight: 1, nodeCacheCapable: true,
httpTimeout: 5s}]`
	kubeconfig = `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {token: %q}}],
clusters: [{name: a, cluster: {server: %q, tls-server-name: %q, certificate-authority-data: %q}}]}`
)

// stage runs what a contender needs beside kube-scheduler.
type stage struct {
	contender, dir string
	listener       product.Listener
	processes      []*process.Process
	// rejects has the nodes that the policies reject.
	rejects map[string]bool
}

func (s *stage) stop() {
	for _, p := range s.processes {
		_ = p.Kill()
	}
	_ = os.Remove(s.listener.Socket)
}

// beforeScheduler chooses the gateway's address, for kube-scheduler's configuration. The gateway starts later: kube-apiserver has no address yet.
func (s *stage) beforeScheduler(tCtx ktesting.TContext, workload *perf.Workload) (func(), error) {
	report := change(tCtx.TB().(*testing.B), workload)
	port, err := ports.Reserve(ports.ReuseAddress)
	check(tCtx, err)
	s.listener, s.rejects = product.Listener{Address: port.Address()}, map[string]bool{}
	config := head
	switch s.contender {
	case "plugin":
		// Not below dir: paths of sockets are short.
		s.listener.Socket = filepath.Join(os.TempDir(), "scheduler-perf-"+port.String()+".sock")
		config = fmt.Sprintf(profile, s.listener.Socket)
	case "http":
		config = fmt.Sprintf(extender, s.listener.Address)
	case "echo":
		server, err := product.StartEcho(tCtx, s.dir)
		check(tCtx, err)
		s.processes, config = append(s.processes, server.Process), fmt.Sprintf(extender, server.Address)
	}
	return func() { s.stop(); port.Release(); report() }, os.WriteFile(s.dir+"/scheduler.yaml", []byte(config), 0o644)
}

// afterScheduler starts the policies and the gateway, before there are nodes and pods.
func (s *stage) afterScheduler(tCtx ktesting.TContext) error {
	if s.contender != "plugin" && s.contender != "http" {
		return nil
	}
	// Before kube-apiserver ends, which would wait for the gateway's watches.
	tCtx.Cleanup(s.stop)
	tCtx.CleanupCtx(s.checkPods)
	path, err := product.Binary("bench-policy")
	check(tCtx, err)
	var backends []product.Backend
	for i, label := range rejected {
		name := fmt.Sprint("policy-", i)
		args := fmt.Sprintf("--name %s --address 127.0.0.1:0 --declare pure --reads labels --table on --refuse %s=%s --prefer %s=moon-%d:3 --prefer %s=rack-%d:5",
			name, label[0], label[1], objects.ZoneLabel, i+1, objects.RackLabel, i)
		server, err := process.Serve(tCtx, process.Program{Name: name, Dir: s.dir, Path: path, Args: strings.Fields(args)}, "listening on")
		check(tCtx, err)
		s.processes = append(s.processes, server.Process)
		filter, score := &product.Filter{Timeout: "800ms", FailurePolicy: "Fail"}, &product.Score{Timeout: "800ms", Weight: 1, Normalize: "None"}
		backends = append(backends, product.Backend{Name: name, URL: "http://" + server.Address, Filter: filter, Score: score})
	}
	rest, file := tCtx.RESTConfig(), s.dir+"/kubeconfig"
	access := fmt.Sprintf(kubeconfig, rest.BearerToken, rest.Host, rest.ServerName, base64.StdEncoding.EncodeToString(rest.CAData))
	check(tCtx, os.WriteFile(file, []byte(access), 0o600))
	config := product.NewConfig(&controlplane.Cluster{Kubeconfig: file}, controlplane.Names, backends)
	config.Extender = s.listener
	server, err := product.StartGateway(tCtx, s.dir, config)
	check(tCtx, err)
	s.processes = append(s.processes, server.Process)
	return nil
}

// setLabels adds the labels that the policies read, whoever the contender is: Kubernetes' nodes have none but zones.
func (s *stage) setLabels(tCtx ktesting.TContext, _ *scheduler.Scheduler, _ *perf.Workload, list *corev1.NodeList) error {
	for i, like := range objects.Nodes(len(list.Items)) {
		name, labels := list.Items[i].Name, map[string]string{}
		for _, label := range rejected {
			labels[label[0]] = like.Labels[label[0]]
			s.rejects[name] = s.rejects[name] || labels[label[0]] == label[1]
		}
		// Maps of strings and numbers always have JSON.
		patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		_, err := tCtx.Client().CoreV1().Nodes().Patch(tCtx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		check(tCtx, err)
	}
	return nil
}

// checkPods fails if a pod is on a node that a policy rejects: then the gateway was not asked.
func (s *stage) checkPods(tCtx ktesting.TContext) {
	all, err := tCtx.Client().CoreV1().Pods("").List(tCtx, metav1.ListOptions{})
	check(tCtx, err)
	for _, pod := range all.Items {
		if s.rejects[pod.Spec.NodeName] {
			tCtx.Errorf("pod %s/%s is on the rejected node %s", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}
}
