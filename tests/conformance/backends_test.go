package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
)

// backend is a program that serves a policy.
type backend struct {
	name string
	// program is the path of it, and line its command line without the address.
	program func() (string, error)
	line    func(t *testing.T) []string
	// args are the operator's, and values those of labels that the policy knows.
	args   func(t *testing.T) string
	values []string
	// otherArgs are valid, too, and decide otherwise.
	otherArgs string
	// bind is a pod that may be bound, NAMESPACE/NAME/UID/NODE.
	bind string
	// like is a backend that gives the same answers.
	like *backend
	// skip are cases that a backend without a cluster cannot pass.
	skip []string
}

const (
	referenceArgs      = `{"zone": "a", "most": 2}`
	otherReferenceArgs = `{"zone": "b", "most": 4}`
)

const spreadArgs = `{"constraints": [{"by": "Owner", "topologyKey": "zone", "maxPods": 2, "whenUnsatisfiable": "DoNotSchedule"}]}`

// all are the backends of this repository.
func all(cluster *cluster) []backend {
	found := []backend{
		ready("label-rules", nothing, "--rules", "racks-drained.yaml").knowing("rack-2", "rack-5"),
		ready("node-resources", nothing),
		ready("node-affinity", nothing),
		ready("spread", constant(spreadArgs)),
		ready("http-extender", extenderArgs),
	}
	rust := example("rust", product.Reference, referenceArgs)
	for _, language := range product.Languages {
		reference := example(language, product.Reference, referenceArgs).binding("shop/web/uid/node")
		reference.like, reference.otherArgs = &rust, otherReferenceArgs
		found = append(found, example(language, "no-arm", ""), reference)
	}
	return append(found, samples(cluster)...)
}

func (b backend) knowing(values ...string) backend {
	b.values = values
	return b
}

// binding is for a backend that says BOUND about any pod, and so also about one whose UID is another now.
func (b backend) binding(pod string) backend {
	b.bind, b.skip = pod, []string{"bind.other-uid"}
	return b
}

// with is the backend with further options.
func (b backend) with(options ...string) backend {
	line := b.line
	b.line = func(t *testing.T) []string { return append(line(t), options...) }
	return b
}

func nothing(*testing.T) string { return "" }

func constant(args string) func(*testing.T) string {
	return func(*testing.T) string { return args }
}

// ready is a ready-made policy.
func ready(name string, args func(*testing.T) string, options ...string) backend {
	return backend{
		name:    name,
		program: func() (string, error) { return product.Binary(product.Policies) },
		line: func(t *testing.T) []string {
			line := []string{name}
			for _, option := range options {
				if filepath.Ext(option) == ".yaml" {
					option = inRepository(t, "backends", "policies", "examples", option)
				}
				line = append(line, option)
			}
			return line
		},
		args: args,
	}
}

// example is an example of the SDK for a language.
func example(language, name, args string) backend {
	return backend{
		name:    name + " (" + language + ")",
		program: func() (string, error) { return product.Example(language, name) },
		line:    func(*testing.T) []string { return nil },
		args:    constant(args),
	}
}

func inRepository(t *testing.T, path ...string) string {
	t.Helper()
	module, err := binaries.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{filepath.Dir(module)}, path...)...)
}

// extenderArgs are those of http-extender, with an HTTP extender that accepts every node.
func extenderArgs(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{Nodes: call.Nodes, NodeNames: call.NodeNames})
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf(`{"urlPrefix": %q, "filterVerb": "filter", "nodeCacheCapable": true}`, server.URL)
}
