package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiserver answers the requests of this policy as kube-apiserver does: versions, preconditions, and a watch. At each
// Binding it checks that no GPU has more pods than memory.
type apiserver struct {
	t       *testing.T
	url     string
	mu      sync.Mutex
	version int
	pods    map[string]*corev1.Pod
	nodes   map[string]*corev1.Node
	events  []event
	news    *sync.Cond
	// lag is how late the watch shows a change.
	lag time.Duration
	// fault says what goes wrong with a request.
	fault    func(*http.Request) fault
	bindings int
	patches  int
}

type fault int

const (
	none fault = iota
	// refused answers with 500 and does nothing.
	refused
	// lost does what is asked, and closes the connection without an answer.
	lost
	// late does what is asked after the connection is closed.
	late
	// touched lets another client change the pod before.
	touched
)

type event struct {
	Type   string      `json:"type"`
	Object *corev1.Pod `json:"object"`
	at     time.Time
}

func startAPIServer(t *testing.T) (*apiserver, kubernetes.Interface) {
	a := &apiserver{t: t, pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, fault: func(*http.Request) fault { return none }}
	a.news = sync.NewCond(&a.mu)
	routes := http.NewServeMux()
	routes.HandleFunc("GET /api/v1/pods", a.list)
	routes.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", a.read)
	routes.HandleFunc("PATCH /api/v1/namespaces/{namespace}/pods/{name}", a.faulty(a.patch))
	routes.HandleFunc("POST /api/v1/namespaces/{namespace}/pods/{name}/binding", a.faulty(a.bind))
	routes.HandleFunc("GET /api/v1/nodes/{name}", a.node)
	server := httptest.NewServer(routes)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	a.url = server.URL
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, QPS: 10_000, Burst: 10_000, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, client
}

func (a *apiserver) addNode(name string, count, memory int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Allocatable = corev1.ResourceList{
		countResource: *resource.NewQuantity(count, resource.DecimalSI), memoryResource: *resource.NewQuantity(memory, resource.DecimalSI),
	}
	a.nodes[name] = node
}

func newPod(name string, memory int64) *corev1.Pod {
	limits := corev1.ResourceList{}
	if memory > 0 {
		limits[memoryResource] = *resource.NewQuantity(memory, resource.DecimalSI)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}}}},
	}
}

// put stores a pod in its next version. The lock is held.
func (a *apiserver) put(kind string, pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	a.version++
	pod.ResourceVersion = fmt.Sprint(a.version)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	a.pods[pod.Namespace+"/"+pod.Name] = pod
	if kind == "DELETED" {
		delete(a.pods, pod.Namespace+"/"+pod.Name)
	}
	a.events = append(a.events, event{Type: kind, Object: pod, at: time.Now().Add(a.lag)})
	a.news.Broadcast()
	return pod
}

func (a *apiserver) add(pods ...*corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pod := range pods {
		a.put("ADDED", pod)
	}
}

func (a *apiserver) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.put("DELETED", a.pods["shop/"+name])
}

func (a *apiserver) pod(name string) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods["shop/"+name].DeepCopy()
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason, Message: message,
	})
}

func (a *apiserver) faulty(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		what := a.fault(r)
		a.mu.Unlock()
		switch what {
		case refused:
			fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is away")
			return
		case touched:
			a.mu.Lock()
			if pod := a.pods[r.PathValue("namespace")+"/"+r.PathValue("name")]; pod != nil {
				a.put("MODIFIED", pod)
			}
			a.mu.Unlock()
		case lost, late:
			body, _ := io.ReadAll(r.Body)
			again := r.Clone(r.Context())
			again.Body = io.NopCloser(strings.NewReader(string(body)))
			if what == lost {
				handle(httptest.NewRecorder(), again)
			} else {
				go func() {
					time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
					handle(httptest.NewRecorder(), again)
				}()
			}
			panic(http.ErrAbortHandler)
		}
		handle(w, r)
	}
}

func (a *apiserver) read(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pod := a.pods[r.PathValue("namespace")+"/"+r.PathValue("name")]; pod != nil {
		answer(w, http.StatusOK, pod)
	} else {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such pod")
	}
}

func (a *apiserver) node(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if node := a.nodes[r.PathValue("name")]; node != nil {
		answer(w, http.StatusOK, node)
	} else {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such node")
	}
}

// of is the pod, if the preconditions hold. The lock is held.
func (a *apiserver) of(w http.ResponseWriter, r *http.Request, uid types.UID, version string) *corev1.Pod {
	pod := a.pods[r.PathValue("namespace")+"/"+r.PathValue("name")]
	switch {
	case pod == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such pod")
	case uid != "" && uid != pod.UID || version != "" && version != pod.ResourceVersion:
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	default:
		return pod.DeepCopy()
	}
	return nil
}

func (a *apiserver) patch(w http.ResponseWriter, r *http.Request) {
	var patch struct{ Metadata metav1.ObjectMeta }
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.patches++
	pod := a.of(w, r, patch.Metadata.UID, patch.Metadata.ResourceVersion)
	if pod == nil {
		return
	}
	if patch.Metadata.UID == "" || patch.Metadata.ResourceVersion == "" {
		a.t.Error("the patch has no preconditions")
	}
	for key, value := range patch.Metadata.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	answer(w, http.StatusOK, a.put("MODIFIED", pod))
}

func (a *apiserver) bind(w http.ResponseWriter, r *http.Request) {
	var binding corev1.Binding
	if err := json.NewDecoder(r.Body).Decode(&binding); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if binding.UID == "" || binding.ResourceVersion == "" {
		a.t.Error("the Binding has no preconditions")
	}
	pod := a.of(w, r, binding.UID, binding.ResourceVersion)
	if pod == nil {
		return
	}
	if pod.Spec.NodeName != "" {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "pod is already assigned to node "+pod.Spec.NodeName)
		return
	}
	pod.Spec.NodeName = binding.Target.Name
	a.bindings++
	a.put("MODIFIED", pod)
	a.checkGPUs()
	answer(w, http.StatusCreated, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"})
}

// checkGPUs is what all of this is for. The lock is held.
func (a *apiserver) checkGPUs() {
	used := map[string]int64{}
	for _, pod := range a.pods {
		if !holdsGPU(pod) {
			continue
		}
		index := indexOf(pod)
		has := gpusOfNode(a.nodes[pod.Spec.NodeName])
		if index < 0 || index >= has.count {
			a.t.Errorf("pod %s on %s has GPU %d", pod.Name, pod.Spec.NodeName, index)
		}
		gpu := fmt.Sprintf("%s/%d", pod.Spec.NodeName, index)
		if used[gpu] += memoryOf(pod); used[gpu] > has.memory {
			a.t.Errorf("GPU %s has %d of %d: it is allocated twice", gpu, used[gpu], has.memory)
		}
	}
}

// list is the list of pods and their watch.
func (a *apiserver) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		a.mu.Lock()
		defer a.mu.Unlock()
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		list.ResourceVersion = fmt.Sprint(a.version)
		for _, pod := range a.pods {
			list.Items = append(list.Items, *pod)
		}
		answer(w, http.StatusOK, list)
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is not supported")
		return
	}
	from := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &from)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-r.Context().Done():
			a.news.Broadcast()
		case <-stop:
		}
	}()
	for next := 0; ; next++ {
		a.mu.Lock()
		for next >= len(a.events) && r.Context().Err() == nil {
			a.news.Wait()
		}
		if r.Context().Err() != nil {
			a.mu.Unlock()
			return
		}
		event := a.events[next]
		a.mu.Unlock()
		version := 0
		_, _ = fmt.Sscan(event.Object.ResourceVersion, &version)
		if version <= from {
			continue
		}
		select {
		case <-time.After(time.Until(event.at)):
		case <-r.Context().Done():
			return
		}
		if json.NewEncoder(w).Encode(event) != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}
