package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

const (
	namespace = "gateway"
	user      = "system:serviceaccount:" + namespace + ":extender-gateway"
	// reason is that of the policy in testdata/account-values.yaml.
	reason = "rules: node belongs to no team"
	// forAPod is how long a test waits for a pod to be scheduled.
	forAPod = 30 * time.Second
)

// TestAccount installs the chart with all verbs.
func TestAccount(t *testing.T) {
	createNamespace(t, namespace)
	list := template(t, namespace, "testdata/account-values.yaml")
	apply(t, list)
	t.Run("it suffices", func(t *testing.T) { expectToSuffice(t, list) })
	t.Run("it may do nothing else", expectNothingElse)
}

// expectToSuffice runs the gateway with a token of the account, and the policy, with the configuration and the rules of the
// ConfigMaps. A real kube-scheduler calls the gateway. Each permission that the account has is used, and no request is
// refused.
func expectToSuffice(t *testing.T, list []*unstructured.Unstructured) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	must(t, os.WriteFile(rules, []byte(dataOf(t, list, "rules.yaml")), 0o600))
	policy, err := product.StartLabelRules(t.Context(), dir, "rules", rules, "127.0.0.1:0")
	must(t, err)
	stopAtEnd(t, policy.Process)
	t.Setenv("POD_NAMESPACE", namespace)
	t.Setenv("POD_NAME", "extender-gateway-0")
	t.Setenv("POD_UID", "u-1")
	admin := startGateway(t, dir, dataOf(t, list, "gateway.yaml"), policy.Address)

	accepted := podOf("accepted")
	create(t, accepted)
	until(t, accepted, "bound", isBound)
	// kube-scheduler may try a refused pod again by itself just after the rules have changed, before the gateway asks for it.
	for range 5 {
		expectRequeued(t, rules)
		if used, _ := requests(t, user); slices.Contains(used, "patch pods/status") {
			break
		}
	}

	expectEvents(t, admin)

	used, denied := requests(t, user)
	if len(denied) > 0 {
		t.Errorf("refused: %v", denied)
	}
	want := []string{
		"create events", "create pods/binding", "list nodes", "list pods", "patch pods/status", "watch nodes", "watch pods",
	}
	// A pod is only read if a Binding had an uncertain end.
	used = slices.DeleteFunc(used, func(request string) bool { return request == "get pods" })
	if !slices.Equal(used, want) {
		t.Errorf("the gateway asked for %v, not for %v", used, want)
	}
	t.Logf("the gateway asked for: %s", strings.Join(used, ", "))
}

// expectEvents overrides the mode of the policy, and expects the Events of that at the gateway's pod.
func expectEvents(t *testing.T, admin string) {
	t.Helper()
	for _, action := range [][]string{{"shadow", "--for", "10m", "--reason", "a bad rule"}, {"reset"}} {
		text, exit, err := product.SetMode(t.Context(), admin, "rules", action[0], action[1:]...)
		must(t, err)
		if exit != 0 {
			t.Fatalf("exit code %d: %s", exit, text)
		}
	}
	about := metav1.ListOptions{FieldSelector: "involvedObject.kind=Pod,involvedObject.name=extender-gateway-0,involvedObject.uid=u-1"}
	var seen []string
	for deadline := time.Now().Add(forAPod); len(seen) < 2; time.Sleep(50 * time.Millisecond) {
		events, err := shared.Client.CoreV1().Events(namespace).List(t.Context(), about)
		must(t, err)
		seen = nil
		for _, event := range events.Items {
			seen = append(seen, event.Type+" "+event.Reason+" "+event.Message)
		}
		if time.Now().After(deadline) {
			t.Fatalf("events after %v: %v", forAPod, seen)
		}
	}
	slices.Sort(seen)
	ended := "Normal ModeOverrideEnded backend rules: the mode is as configured again"
	begun := regexp.MustCompile(`^Warning ModeOverridden backend rules: Shadow until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ by 127\.0\.0\.1: a bad rule$`)
	if len(seen) != 2 || seen[0] != ended || !begun.MatchString(seen[1]) {
		t.Errorf("events: %q", seen)
	}
}

// expectRequeued expects a pod that is refused to be bound after the rules have changed.
func expectRequeued(t *testing.T, rules string) {
	t.Helper()
	text := read(t, rules)
	refused := podOf("refused")
	create(t, refused)
	// Bound, if the policy has not read its rules again since the last time.
	until(t, refused, "refused or bound", func(pod *corev1.Pod) bool {
		return isBound(pod) || strings.Contains(condition(pod).Message, reason)
	})
	replace(t, rules, "rules: []\n")
	until(t, refused, "bound", isBound)
	replace(t, rules, text)
}

// replace gives a file another content at once.
func replace(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file+".next", []byte(text), 0o600))
	must(t, os.Rename(file+".next", file))
}

// expectNothingElse asks the apiserver about every verb of every resource.
func expectNothingElse(t *testing.T) {
	asked, allowed := everythingAllowed(t)
	want := []string{
		// What every authenticated user may.
		"create selfsubjectaccessreviews", "create selfsubjectreviews", "create selfsubjectrulesreviews",
		// What every service account may, from 1.37 on.
		"get clustertrustbundles", "list clustertrustbundles", "watch clustertrustbundles",
		"create pods/binding", "get pods", "list nodes", "list pods", "patch pods/status", "watch nodes", "watch pods",
	}
	slices.Sort(want)
	if !slices.Equal(allowed, want) {
		t.Errorf("allowed: %v", allowed)
	}
	t.Logf("of %d verbs of resources, the account may %d", asked, len(allowed))
}

// dataOf is the entry of this key in one of the ConfigMaps.
func dataOf(t *testing.T, list []*unstructured.Unstructured, key string) string {
	t.Helper()
	for _, object := range list {
		text, found, err := unstructured.NestedString(object.Object, "data", key)
		if err == nil && found {
			return text
		}
	}
	t.Fatalf("no ConfigMap with %s", key)
	return ""
}

// startGateway runs the gateway and a kube-scheduler that calls it, with the entries that the gateway prints for its
// configuration. Only addresses and the kubeconfig differ from those in a cluster. Returns the admin address.
func startGateway(t *testing.T, dir, text, policy string) string {
	t.Helper()
	kubeconfig := kubeconfigOfAccount(t, dir, namespace, "extender-gateway")
	gateway := serve(t, dir, text, kubeconfig, policy)
	entries := entries(t, filepath.Join(dir, "gateway.yaml"), "http://"+gateway.Address)
	if len(entries) != 2 {
		t.Fatalf("expected an entry for decisions and one for bind: %v", entries)
	}
	scheduler, err := shared.StartScheduler(t.Context(), controlplane.SchedulerOptions{Extenders: entries})
	must(t, err)
	stopAtEnd(t, scheduler.Process)
	admin, err := gateway.Line(t.Context(), "admin listening on ")
	must(t, err)
	return admin
}

// serve runs a gateway with this configuration, changed by writeConfig.
func serve(t *testing.T, dir, text, kubeconfig string, policies ...string) *process.Server {
	t.Helper()
	file := filepath.Join(dir, "gateway.yaml")
	writeConfig(t, file, text, kubeconfig, policies...)
	return startProgram(t, dir, product.Gateway, "extender listening on", "serve", "--config", file)
}

// writeConfig writes a configuration of the gateway with free addresses of loopback and the addresses of its policies, in order.
func writeConfig(t *testing.T, file, text, kubeconfig string, policies ...string) {
	t.Helper()
	var config map[string]any
	must(t, yaml.Unmarshal([]byte(text), &config))
	socket, hasSocket := config["extender"].(map[string]any)["socket"]
	for _, key := range []string{"extender", "metrics", "admin"} {
		config[key] = map[string]any{"address": "127.0.0.1:0"}
	}
	if hasSocket {
		config["extender"].(map[string]any)["socket"] = socket
	}
	config["cluster"] = map[string]any{"kubeconfig": kubeconfig}
	for i, policy := range policies {
		config["backends"].([]any)[i].(map[string]any)["url"] = "http://" + policy
	}
	out, err := yaml.Marshal(config)
	must(t, err)
	must(t, os.WriteFile(file, out, 0o600))
}

// startProgram runs a program of the product until it prints its address after these words.
func startProgram(t *testing.T, dir, name, announcement string, args ...string) *process.Server {
	t.Helper()
	path, err := product.Binary(name)
	must(t, err)
	server, err := process.Serve(t.Context(), process.Program{Name: name, Dir: dir, Path: path, Args: args}, announcement)
	must(t, err)
	stopAtEnd(t, server.Process)
	return server
}

// entries are what `extender-gateway scheduler-config` prints.
func entries(t *testing.T, file, url string, options ...string) []configv1.Extender {
	t.Helper()
	path, err := product.Binary(product.Gateway)
	must(t, err)
	printed := output(t, path, append([]string{"scheduler-config", "--config", file, "--url", url}, options...)...)
	var config struct{ Extenders []configv1.Extender }
	must(t, yaml.UnmarshalStrict([]byte(printed), &config))
	return config.Extenders
}

// kubeconfigOfAccount has a token as the kubelet would mount it.
func kubeconfigOfAccount(t *testing.T, dir, namespace, account string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3607))}}
	request, err := shared.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	must(t, err)
	return kubeconfigOf(t, filepath.Join(dir, account+".kubeconfig"), &clientcmdapi.AuthInfo{Token: request.Status.Token})
}

// kubeconfigOf writes a file with which this user reaches the apiserver.
func kubeconfigOf(t *testing.T, file string, user *clientcmdapi.AuthInfo) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(shared.Kubeconfig)
	must(t, err)
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{"admin": user}
	must(t, clientcmd.WriteToFile(*config, file))
	return file
}

func stopAtEnd(t *testing.T, p *process.Process) {
	t.Cleanup(func() { must(t, p.Kill()) })
}

// podOf is one that a Deployment of this name would have.
func podOf(app string) *corev1.Pod {
	return objects.NewReplicaSet("default", app, nil).Pod()
}

func condition(pod *corev1.Pod) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition
		}
	}
	return corev1.PodCondition{}
}

func until(t *testing.T, pod *corev1.Pod, what string, is func(*corev1.Pod) bool) {
	t.Helper()
	for deadline := time.Now().Add(forAPod); ; time.Sleep(50 * time.Millisecond) {
		now := get(t, pod)
		if is(now) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not %s within %v: %+v", pod.Name, what, forAPod, condition(now))
		}
	}
}

// requests are the verbs and resources that the user asked for, according to the audit log, and those that were refused.
func requests(t *testing.T, user string) (used, denied []string) {
	t.Helper()
	all, bad := map[string]bool{}, map[string]bool{}
	for _, event := range audited(t, user) {
		request := event.Verb + " " + strings.TrimSuffix(event.ObjectRef.Resource+"/"+event.ObjectRef.Subresource, "/")
		if event.ObjectRef.Resource == "" {
			uri, err := url.Parse(event.RequestURI)
			must(t, err)
			request = event.Verb + " " + uri.Path
		}
		all[request] = true
		if event.ResponseStatus.Code == 401 || event.ResponseStatus.Code == 403 {
			bad[request] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(bad))
}

// auditEvent is the part of an audit event that the tests read.
type auditEvent struct {
	Verb, RequestURI string
	User             struct{ Username string }
	ObjectRef        struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus   struct{ Code int }
}

// audited are the requests of a user in the audit log.
func audited(t *testing.T, user string) (events []auditEvent) {
	t.Helper()
	text, err := os.ReadFile(shared.audit)
	must(t, err)
	// The apiserver may be writing the last line.
	complete := text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(complete) {
		var event auditEvent
		must(t, json.Unmarshal(line, &event))
		if event.User.Username == user {
			events = append(events, event)
		}
	}
	return events
}

// everythingAllowed asks for each verb of each resource of the apiserver whether the account may do it.
func everythingAllowed(t *testing.T) (asked int, allowed []string) {
	t.Helper()
	_, lists, err := shared.Client.Discovery().ServerGroupsAndResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		t.Fatal(err)
	}
	found := make(chan string, 10_000)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
		for _, resource := range list.APIResources {
			for _, verb := range append(slices.Clone(resource.Verbs), "impersonate", "escalate", "bind") {
				asked++
				group.Go(func() error {
					may, err := may(ctx, version, resource.Name, verb)
					if may {
						found <- verb + " " + resource.Name
					}
					return err
				})
			}
		}
	}
	must(t, group.Wait())
	close(found)
	for it := range found {
		allowed = append(allowed, it)
	}
	slices.Sort(allowed)
	return asked, slices.Compact(allowed)
}

func may(ctx context.Context, version schema.GroupVersion, name, verb string) (bool, error) {
	resource, subresource, _ := strings.Cut(name, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   user,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: version.Group, Version: version.Version, Resource: resource, Subresource: subresource, Verb: verb,
		},
	}}
	review, err := shared.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("may %s %s: %w", verb, name, err)
	}
	return review.Status.Allowed, nil
}
