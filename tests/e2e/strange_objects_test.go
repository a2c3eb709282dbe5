package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// recordObjectsEnv names a folder, fuzz/corpus/strange_object, to which the objects are written as the apiserver serves
// them.
const recordObjectsEnv = "EXTENDER_OBJECTS_RECORD"

// strangeFields are managed fields that the apiserver stores and serves as they are: it decodes and encodes them as raw JSON.
// Fields that are no set of paths, such as numbers and duplicate keys, it replaces.
var strangeFields = map[string]string{
	"bytes":   "{\"f:\xff\":{\"f:\xe2\x82\":{}}}",
	"levels":  strings.Repeat(`{"f:a":`, 200) + "{}" + strings.Repeat("}", 200),
	"depth":   strings.Repeat(`{"f:a":`, 4000) + "{}" + strings.Repeat("}", 4000),
	"escapes": `{"f:\ud800":{},"f:<>& \u0000\"\\":{}}`,
}

// createStrange creates an object with these managed fields, as a client that writes JSON itself, and returns it as the
// apiserver serves it.
func (s *scenario) createStrange(resource, namespace, name string, object any, fields string) []byte {
	s.Helper()
	body, err := json.Marshal(object)
	s.must(err)
	managed := `"metadata":{"managedFields":[{"manager":"e2e","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",` +
		`"fieldsType":"FieldsV1","fieldsV1":` + fields + `}],`
	body = bytes.Replace(body, []byte(`"metadata":{`), []byte(managed), 1)
	client := shared.Client.CoreV1().RESTClient()
	post := client.Post().Resource(resource).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json")
	get := client.Get().Resource(resource).Name(name).SetHeader("Accept", "application/json")
	if namespace != "" {
		post, get = post.Namespace(namespace), get.Namespace(namespace)
	}
	if answer, err := post.Body(body).DoRaw(s.ctx); err != nil {
		s.Fatalf("%s %s: %v: %.300s", resource, name, err, answer)
	}
	served, err := get.DoRaw(s.ctx)
	s.must(err)
	return served
}

func TestOneObjectNeverStopsTheOthers(t *testing.T) {
	forEach(t, "pods and nodes with any JSON in managedFields are decided, and so are all others, also after a restart", nightlyDoors, namesOnly, func(s *scenario) {
		nodes := objects.Nodes(2+len(strangeFields), cpus(4))
		s.nodes(nodes[:2])
		gateway := s.startNodePolicies()
		s.schedulerWithout([]string{"NodeResourcesFit"}, gateway)
		placed := podsOf("first", 1, 3000)
		s.pods(placed...)
		// kube-scheduler binds, and its own check of resources is off: the next pod must come after the gateway has counted this one.
		counted := func(pod *corev1.Pod) {
			s.boundTo(pod)
			s.untilCounted(asking(gateway))
		}
		counted(placed[0])
		next := 2
		for kind, fields := range strangeFields {
			node := nodes[next]
			next++
			s.createStrange("nodes", "", node.Name, node, fields)
			pod := requesting("odd-"+kind, 3000)
			s.createStrange("pods", shop, pod.Name, pod, fields)
			counted(pod)
			placed = append(placed, pod)
		}
		last := requesting("last", 3000)
		s.pods(last)
		used := map[string]bool{}
		for _, pod := range append(placed, last) {
			node := s.boundTo(pod)
			if used[node] {
				s.Errorf("%s is on %s, where another pod of 3 CPUs is", pod.Name, node)
			}
			used[node] = true
		}
		s.expectNoNodeOverfull()
		stranger := requesting("stranger", 3000)
		s.pods(stranger)
		s.refused(stranger, corev1.PodReasonUnschedulable)
		s.deletePod(stranger)
		s.must(gateway.Stop())
		again := s.startNodePolicies()
		s.untilCounted(asking(again))
		text, _, err := product.Status(s.ctx, s.adminOf(again))
		if err != nil || strings.Contains(text, "cannot be read") {
			s.Errorf("%v: %s", err, text)
		}
	})
}

// What the fuzz target strange_object begins with is what Go has encoded here.
func TestTheAPIServerServesManagedFieldsAsTheyAre(t *testing.T) {
	s := newScenario(t, "kube-apiserver stores any JSON that Go reads in managedFields, and serves it as it is", gatewayFront{}, controlplane.Names)
	dir := os.Getenv(recordObjectsEnv)
	for kind, fields := range strangeFields {
		node, pod := objects.Nodes(1, cpus(4))[0], requesting("odd-"+kind, 3000)
		node.Name = "odd-" + kind
		for object, served := range map[string][]byte{
			"node": s.createStrange("nodes", "", node.Name, node, fields),
			"pod":  s.createStrange("pods", shop, pod.Name, pod, fields),
		} {
			_, after, found := bytes.Cut(served, []byte(`"fieldsV1":`))
			if end := min(len(after), 100); !found || kind != "escapes" && !bytes.HasPrefix(after, []byte(fields)) {
				s.Errorf("%s with %s: %t, %q", object, kind, found, after[:end])
			}
			if dir != "" {
				s.must(os.WriteFile(filepath.Join(dir, object+"-"+kind), bytes.TrimSpace(served), 0o644))
			}
		}
	}
}

func TestANodeThatCannotBeReadIsRejectedAlone(t *testing.T) {
	s := newScenario(t, "a node with more labels than the gateway reads is rejected alone, and named in status until it is repaired",
		gatewayFront{}, controlplane.FullObjects)
	nodes := objects.Nodes(2, cpus(4))
	for i := range 20_001 {
		nodes[0].Labels[fmt.Sprintf("l%d", i)] = ""
	}
	s.nodes(nodes)
	config := product.NewConfig(shared.Cluster, controlplane.FullObjects, []product.Backend{s.nodePolicy(product.NodeAffinity)})
	gateway := serveGateway(s, config)
	s.startScheduler(controlplane.SchedulerOptions{Extenders: entriesOf(controlplane.ExtenderEntry(gateway.Address, controlplane.FullObjects))})
	pods := podsOf("web", 3, 100)
	s.pods(pods...)
	for _, pod := range pods {
		if node := s.boundTo(pod); node != nodes[1].Name {
			s.Errorf("%s is on %s", pod.Name, node)
		}
	}
	admin := s.adminOf(gateway)
	s.statusWith(admin, regexp.MustCompile(`node `+nodes[0].Name+`\b.*cannot be read`))
	s.statusWith(admin, regexp.MustCompile(`kubectl get node `+nodes[0].Name))
	node := s.node(nodes[0].Name)
	// Only calls bring nodes here: the next one is asked about a pod that kube-scheduler places once it has seen the repair.
	node.Labels = map[string]string{"repaired": "yes"}
	_, err := shared.Client.CoreV1().Nodes().Update(s.ctx, node, metav1.UpdateOptions{})
	s.must(err)
	later := requesting("later", 100)
	later.Spec.NodeSelector = node.Labels
	s.pods(later)
	s.until("status to forget the node", func(ctx context.Context) (bool, error) {
		text, _, err := product.Status(ctx, admin)
		return !strings.Contains(text, "cannot be read"), err
	}, func() string { return "it still names it" })
}
