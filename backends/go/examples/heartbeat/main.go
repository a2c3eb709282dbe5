// Heartbeat shows a policy with a controller that runs in one of its replicas: it writes to the ConfigMap "heartbeat" who
// leads. The policy itself accepts every node.
//
// The interesting part is what a leader does that has lost its Lease without noticing: see beat.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/controllers"
)

const (
	name  = "heartbeat"
	every = time.Second
	// patience is how long a request may take.
	patience = 5 * time.Second
)

// The keys of the ConfigMap.
const (
	leaderKey = "leader"
	// termKey has the fencing token of the leader.
	termKey  = "term"
	beatsKey = "beats"
)

// heart is the controller, and what it shows.
type heart struct {
	configMaps typedcorev1.ConfigMapInterface
	identity   string
	// failure is the error of the last beat, which is logged when it changes.
	failure string

	mu sync.Mutex
	// written is what this replica has written last.
	written map[string]string
}

// run beats until ctx ends, which is when this replica does not lead any more.
func (h *heart) run(ctx context.Context) error {
	term, _ := controllers.FencingToken(ctx)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		if err := h.beat(ctx, term); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// beat writes the ConfigMap. Two things keep a leader from writing that does not lead any more: the token of a later one,
// which is larger, and the resourceVersion of what it has read, with which the apiserver refuses a write that is late.
func (h *heart) beat(ctx context.Context, term int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := h.configMaps.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = h.configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	}
	if err != nil {
		// The next beat tries again; whether this replica still leads is the election's business.
		h.note(err)
		return nil
	}
	later, _ := strconv.ParseInt(found.Data[termKey], 10, 64)
	if later > term {
		return fmt.Errorf("term %d has begun, this replica leads in term %d", later, term)
	}
	beats, _ := strconv.Atoi(found.Data[beatsKey])
	found.Data = map[string]string{
		leaderKey: h.identity, termKey: strconv.FormatInt(term, 10), beatsKey: strconv.Itoa(beats + 1),
	}
	written, err := h.configMaps.Update(ctx, found, metav1.UpdateOptions{})
	h.note(err)
	if err == nil {
		h.mu.Lock()
		h.written = written.Data
		h.mu.Unlock()
	}
	return nil
}

// note logs an error that differs from that of the last beat.
func (h *heart) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != h.failure {
		slog.Warn("the ConfigMap is not written; the next beat tries again", "name", name, "error", err)
	}
	h.failure = text
}

func (h *heart) show(context.Context, policy.IntrospectAsk) (any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return map[string]any{"identity": h.identity, "written": h.written}, nil
}

// run serves until the process ends, and returns why it cannot start.
func run() error {
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	access, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return fmt.Errorf("there is no access to Kubernetes: %w; set KUBECONFIG, or run in a pod with a service account", err)
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	namespace := os.Getenv("POD_NAMESPACE")
	if namespace == "" {
		return fmt.Errorf("POD_NAMESPACE is not set; set it with the downward API to metadata.namespace")
	}
	h := &heart{configMaps: client.CoreV1().ConfigMaps(namespace)}
	elected, err := controllers.New(controllers.Config{
		Lease: name, Namespace: namespace, Leases: client.CoordinationV1(),
		Controllers: []controllers.Controller{{Name: name, Run: h.run}},
	})
	if err != nil {
		return err
	}
	h.identity = elected.State().Identity
	accepts := func(policy.Pod, policy.Node) policy.Verdict { return policy.Accept() }
	policy.Main(policy.Policy{
		Name: name, Version: "1.0.0",
		Filter:        &policy.Filter{Pure: true, Reads: &policy.Reads{}, Node: accepts},
		Introspection: []policy.Page{{Path: "/heartbeat", Description: "What this replica has written last", Show: h.show}},
	}, policy.WithControllers(elected))
	return nil
}

func main() {
	fmt.Fprintln(os.Stderr, "heartbeat:", run())
	os.Exit(1)
}
