package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// uncertain is how long a reservation stays whose Binding has an unknown end, or that the watch does not show. The gateway
	// counts such a pod for as long.
	uncertain = 90 * time.Second
	// sweepEvery is how often old reservations are looked for.
	sweepEvery = 10 * time.Second
	// afterwards is how long a bind may still look whether the pod is bound after its caller has given up.
	afterwards = 2 * time.Second
	// attempts is how often a bind begins again because the pod was changed by others meanwhile.
	attempts = 4
)

// cluster are the requests to the apiserver, the watch of pods, and what both say about GPUs.
type cluster struct {
	client kubernetes.Interface
	ledger *ledger
	logger *slog.Logger
	synced cache.InformerSynced

	mu sync.Mutex
	// names are those of reserved pods, for the sweep.
	names map[types.UID]types.NamespacedName
	// binding are the pods that are being bound. A repeated call waits for the first one.
	binding map[types.UID]chan struct{}
}

// newClient reads the kubeconfig, or without one what Kubernetes gives to each pod.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot find the apiserver: %w; set --kubeconfig, or run in a pod with a service account", err)
	}
	config.QPS, config.Burst = 200, 400
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return traced{inner} })
	return kubernetes.NewForConfig(rest.AddUserAgent(config, "gpu-share"))
}

// traced lets the apiserver's spans be a part of the call's trace.
type traced struct{ inner http.RoundTripper }

func (t traced) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	otel.GetTextMapPropagator().Inject(request.Context(), propagation.HeaderCarrier(request.Header))
	return t.inner.RoundTrip(request)
}

// watch begins to watch pods; it ends with ctx.
func watch(ctx context.Context, client kubernetes.Interface, logger *slog.Logger) (*cluster, error) {
	c := &cluster{
		client: client, ledger: newLedger(), logger: logger,
		names: map[types.UID]types.NamespacedName{}, binding: map[types.UID]chan struct{}{},
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(reduced))
	informer := factory.Core().V1().Pods().Informer()
	registered, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { c.show(object) },
		UpdateFunc: func(before, object any) {
			// A pod of the same name that was deleted and made anew between two events.
			if old, pod := before.(*corev1.Pod), object.(*corev1.Pod); old.UID != pod.UID {
				c.ledger.gone(old.UID)
			}
			c.show(object)
		},
		DeleteFunc: func(object any) {
			if last, is := object.(cache.DeletedFinalStateUnknown); is {
				object = last.Obj
			}
			if pod, is := object.(*corev1.Pod); is {
				c.ledger.gone(pod.UID)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	c.synced = registered.HasSynced
	factory.Start(ctx.Done())
	go c.sweep(ctx)
	return c, nil
}

func (c *cluster) show(object any) {
	if pod, is := object.(*corev1.Pod); is {
		c.ledger.show(pod)
	}
}

// reduced keeps of a pod what is read here: the watch holds all pods of the cluster.
func reduced(object any) (any, error) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return object, nil
	}
	small := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Annotations: map[string]string{},
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, InitContainers: limits(pod.Spec.InitContainers), Containers: limits(pod.Spec.Containers)},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if index, has := pod.Annotations[indexAnnotation]; has {
		small.Annotations[indexAnnotation] = index
	}
	return small, nil
}

func limits(containers []corev1.Container) []corev1.Container {
	var small []corev1.Container
	for _, container := range containers {
		if amount, has := container.Resources.Limits[memoryResource]; has {
			limited := corev1.Container{Name: container.Name, RestartPolicy: container.RestartPolicy}
			limited.Resources.Limits = corev1.ResourceList{memoryResource: amount}
			small = append(small, limited)
		}
	}
	return small
}

// ready is false until the watch has shown all pods: before that, GPUs look free that are not.
func (c *cluster) ready() error {
	if !c.synced() {
		return errors.New("the pods have not been read from the apiserver yet")
	}
	return nil
}

// errNotGPU says that the pod requests no memory of GPUs.
var errNotGPU = errors.New("the pod requests no " + memoryResource)

// pod is what a bind is about.
type pod struct {
	types.NamespacedName
	uid types.UID
}

// bind reserves a GPU of the node for the pod, writes the choice to the pod, and binds it. A pod that is bound to the node
// already is bound.
func (c *cluster) bind(ctx context.Context, pod pod, node string) error {
	done, err := c.alone(ctx, pod)
	if err != nil {
		return err
	}
	defer done()
	var conflict error
	for range attempts {
		err := c.attempt(ctx, pod, node)
		if !errors.As(err, new(changed)) {
			return err
		}
		conflict = err
	}
	return conflict
}

// alone waits until no other call binds the pod.
func (c *cluster) alone(ctx context.Context, pod pod) (done func(), err error) {
	for {
		c.mu.Lock()
		other, busy := c.binding[pod.uid]
		if !busy {
			mine := make(chan struct{})
			c.binding[pod.uid], c.names[pod.uid] = mine, pod.NamespacedName
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.binding, pod.uid)
				c.mu.Unlock()
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("another call is still binding the pod: %w", ctx.Err())
		}
	}
}

// changed is an attempt that failed because others have written to the pod, such as kube-scheduler its condition.
type changed struct{ error }

func (c *cluster) attempt(ctx context.Context, pod pod, node string) error {
	found, err := c.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot read pod %s: %w", pod.NamespacedName, err)
	}
	switch {
	case found.UID != pod.uid:
		return fmt.Errorf("pod %s has the UID %s now", pod.NamespacedName, found.UID)
	case found.Spec.NodeName == node:
		c.ledger.adopt(found)
		return nil
	case found.Spec.NodeName != "":
		c.ledger.adopt(found)
		return fmt.Errorf("pod %s is bound to node %s already", pod.NamespacedName, found.Spec.NodeName)
	}
	memory := memoryOf(found)
	if memory == 0 {
		return errNotGPU
	}
	has, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot read node %s: %w", node, err)
	}
	index, err := c.ledger.reserve(pod.uid, node, gpusOfNode(has), memory)
	if err != nil {
		return err
	}
	version, err := c.annotate(ctx, found, index, gpusOfNode(has).memory, memory)
	if err != nil {
		// Without a Binding the annotations mean nothing.
		c.ledger.unwritten(pod.uid)
		return err
	}
	c.ledger.written(pod.uid)
	return c.create(ctx, pod, node, version)
}

// annotate writes the choice to the pod, if it is still the same pod in the same version, and returns its next version.
func (c *cluster) annotate(ctx context.Context, of *corev1.Pod, index, device, memory int64) (string, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": of.UID, "resourceVersion": of.ResourceVersion,
		"annotations": map[string]string{
			indexAnnotation:      strconv.FormatInt(index, 10),
			deviceAnnotation:     strconv.FormatInt(device, 10),
			podAnnotation:        strconv.FormatInt(memory, 10),
			assignedAnnotation:   "false",
			assumeTimeAnnotation: strconv.FormatInt(time.Now().UnixNano(), 10),
		},
	}})
	if err != nil {
		return "", err
	}
	patched, err := c.client.CoreV1().Pods(of.Namespace).Patch(ctx, of.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsConflict(err) {
		return "", changed{fmt.Errorf("cannot annotate pod %s/%s: %w", of.Namespace, of.Name, err)}
	}
	if err != nil {
		return "", fmt.Errorf("cannot annotate pod %s/%s: %w", of.Namespace, of.Name, err)
	}
	return patched.ResourceVersion, nil
}

// create creates the Binding, for the pod in this version alone: a Binding of an earlier attempt that is still on its way
// then fails, and so does this one if a later attempt has chosen another GPU.
func (c *cluster) create(ctx context.Context, pod pod, node, version string) error {
	err := c.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.uid, ResourceVersion: version},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err == nil {
		c.ledger.ended(pod.uid)
		return nil
	}
	return c.notBound(ctx, pod, node, fmt.Errorf("cannot bind pod %s: %w", pod.NamespacedName, err), isDefinite(err))
}

// isDefinite says whether the apiserver has refused the Binding. Otherwise it may have been created, or may still be.
func isDefinite(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err)
}

// notBound looks whether the pod is bound in spite of the error, and what happens to its reservation.
func (c *cluster) notBound(ctx context.Context, pod pod, node string, failed error, definite bool) error {
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	found, err := c.client.CoreV1().Pods(pod.Namespace).Get(looking, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && found.UID != pod.uid:
		c.ledger.release(pod.uid)
		return failed
	case err == nil && found.Spec.NodeName != "":
		c.ledger.adopt(found)
		if found.Spec.NodeName == node {
			return nil
		}
		return failed
	case !definite:
		c.ledger.ended(pod.uid)
		return failed
	default:
		c.ledger.release(pod.uid)
		if apierrors.IsConflict(failed) {
			return changed{failed}
		}
		return failed
	}
}

// sweep gives back reservations of pods that the watch never shows, because they were deleted before it saw them or never
// bound.
func (c *cluster) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.sweepOnce(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (c *cluster) sweepOnce(ctx context.Context) {
	for _, uid := range c.ledger.old(uncertain) {
		c.mu.Lock()
		name := c.names[uid]
		c.mu.Unlock()
		found, err := c.client.CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && (found.UID != uid || found.Spec.NodeName == ""):
			c.ledger.expire(uid, uncertain)
		case err == nil:
			c.ledger.adopt(found)
		default:
			c.logger.Warn("an old reservation stays, because its pod cannot be read", "pod", name.String(), "error", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.names {
		if _, busy := c.binding[uid]; !busy && !c.ledger.isReserved(uid) {
			delete(c.names, uid)
		}
	}
}
