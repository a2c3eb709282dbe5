package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
)

// recorder is a proxy between kube-scheduler and an extender that keeps the first body of each verb.
type recorder struct {
	// address is where kube-scheduler calls it, target the extender.
	address, target string

	mu     sync.Mutex
	bodies map[string][]byte
}

// record starts a recorder in front of the extender at target.
func (s *scenario) record(target string) *recorder {
	r := &recorder{target: target, bodies: map[string][]byte{}}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			// kube-scheduler has ended the call.
			return
		}
		r.keep(path.Base(request.URL.Path), body)
		request.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, request)
	}))
	s.Cleanup(server.Close)
	r.address = server.Listener.Addr().String()
	return r
}

func (r *recorder) keep(verb string, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bodies[verb] == nil {
		r.bodies[verb] = body
	}
}

// verbs are those that were called, in alphabetical order.
func (r *recorder) verbs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(r.bodies)), ", ")
}

// sent is the part of a request that differs between releases.
type sent struct {
	Pod   object
	Nodes struct{ Items []object }
}

// object has a field that some releases remove to save memory.
type object struct {
	Metadata struct{ ManagedFields json.RawMessage }
}

// fields are the fields with a value in the first body of the verb, in alphabetical order.
func (r *recorder) fields(s *scenario, verb string) string {
	s.Helper()
	var fields map[string]any
	r.decode(s, verb, &fields)
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
	return strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

// managed reports whether pod and nodes of the first filter call have their managedFields.
func (r *recorder) managed(s *scenario) string {
	s.Helper()
	var call sent
	r.decode(s, "filter", &call)
	with := map[bool]string{false: "without", true: "with"}
	text := "pod " + with[call.Pod.Metadata.ManagedFields != nil]
	if nodes := call.Nodes.Items; len(nodes) > 0 {
		text += ", nodes " + with[nodes[0].Metadata.ManagedFields != nil]
	}
	return text
}

func (r *recorder) decode(s *scenario, verb string, into any) {
	s.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := json.Unmarshal(r.bodies[verb], into); err != nil {
		s.Fatalf("the body of %s: %v: %.200s", verb, err, r.bodies[verb])
	}
}
