package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// leases are those of an apiserver, with versions and conflicts. It answers calls in this process and over HTTP.
type leases struct {
	mu      sync.Mutex
	version int
	stored  map[string]*coordination.Lease
}

func newLeases() *leases { return &leases{stored: map[string]*coordination.Lease{}} }

func (l *leases) get(name string) (*coordination.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease, is := l.stored[name]
	if !is {
		return nil, apierrors.NewNotFound(coordination.Resource("leases"), name)
	}
	return lease.DeepCopy(), nil
}

func (l *leases) create(lease *coordination.Lease) (*coordination.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, is := l.stored[lease.Name]; is {
		return nil, apierrors.NewAlreadyExists(coordination.Resource("leases"), lease.Name)
	}
	return l.put(lease), nil
}

func (l *leases) update(lease *coordination.Lease) (*coordination.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stored, is := l.stored[lease.Name]
	switch {
	case !is:
		return nil, apierrors.NewNotFound(coordination.Resource("leases"), lease.Name)
	case lease.ResourceVersion != stored.ResourceVersion:
		return nil, apierrors.NewConflict(coordination.Resource("leases"), lease.Name, errors.New("the object has been modified"))
	}
	return l.put(lease), nil
}

// put stores the next version. The lock is held.
func (l *leases) put(lease *coordination.Lease) *coordination.Lease {
	l.version++
	lease = lease.DeepCopy()
	lease.ResourceVersion = strconv.Itoa(l.version)
	l.stored[lease.Name] = lease
	return lease.DeepCopy()
}

// change is what somebody else does.
func (l *leases) change(name string, change func(*coordination.LeaseSpec)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease := l.stored[name].DeepCopy()
	change(&lease.Spec)
	l.put(lease)
}

func (l *leases) remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.stored, name)
}

// holder is the Lease's, and how often it has changed hands.
func (l *leases) holder(name string) (string, int32) {
	lease, err := l.get(name)
	if err != nil {
		return "", 0
	}
	return *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions
}

// client is that of one replica. It can be cut off from the apiserver.
type client struct {
	coordinationv1.LeaseInterface
	leases *leases
	mu     sync.Mutex
	away   bool
	hangs  bool
}

func (c *client) Leases(string) coordinationv1.LeaseInterface { return c }

func (c *client) cut(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

// hang lets requests wait for an answer that never comes.
func (c *client) hang(hangs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangs = hangs
}

func (c *client) reach(ctx context.Context) error {
	c.mu.Lock()
	away, hangs := c.away, c.hangs
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	if away {
		return errors.New("connection refused")
	}
	return ctx.Err()
}

func (c *client) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordination.Lease, error) {
	if err := c.reach(ctx); err != nil {
		return nil, err
	}
	return c.leases.get(name)
}

func (c *client) Create(ctx context.Context, lease *coordination.Lease, _ metav1.CreateOptions) (*coordination.Lease, error) {
	if err := c.reach(ctx); err != nil {
		return nil, err
	}
	return c.leases.create(lease)
}

func (c *client) Update(ctx context.Context, lease *coordination.Lease, _ metav1.UpdateOptions) (*coordination.Lease, error) {
	if err := c.reach(ctx); err != nil {
		return nil, err
	}
	return c.leases.update(lease)
}

// ServeHTTP answers as kube-apiserver does.
func (l *leases) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/shop/leases/{name}", func(w http.ResponseWriter, r *http.Request) {
		answer(w)(l.get(r.PathValue("name")))
	})
	write := func(write func(*coordination.Lease) (*coordination.Lease, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			// Protobuf, as client-go sends it.
			body, err := io.ReadAll(r.Body)
			lease := &coordination.Lease{}
			if err == nil {
				_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, lease)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			answer(w)(write(lease))
		}
	}
	routes.HandleFunc("POST /apis/coordination.k8s.io/v1/namespaces/shop/leases", write(l.create))
	routes.HandleFunc("PUT /apis/coordination.k8s.io/v1/namespaces/shop/leases/{name}", write(l.update))
	routes.ServeHTTP(response, request)
}

func answer(w http.ResponseWriter) func(*coordination.Lease, error) {
	return func(lease *coordination.Lease, err error) {
		w.Header().Set("Content-Type", "application/json")
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			failure := status.Status()
			failure.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			w.WriteHeader(int(failure.Code))
			_ = json.NewEncoder(w).Encode(failure)
			return
		}
		lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
		_ = json.NewEncoder(w).Encode(lease)
	}
}
