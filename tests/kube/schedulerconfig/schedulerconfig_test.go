package schedulerconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"extender-gateway.io/tests/kube/binaries"
)

const gatewayHeader = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n"

const filters = "backends: [{name: a, url: 'http://a:1', filter: {}}]\n"

func seconds(number time.Duration) metav1.Duration {
	return metav1.Duration{Duration: number * time.Second}
}

// decide is the entry for decisions without further settings.
func decide() config.Extender {
	return config.Extender{
		URLPrefix: "http://127.0.0.1:8888", FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt",
		Weight: 1, NodeCacheCapable: true, HTTPTimeout: seconds(3),
	}
}

// bind is the entry of a binder for pods with these resources.
func bind(resources ...config.ExtenderManagedResource) config.Extender {
	return config.Extender{
		URLPrefix: "http://127.0.0.1:8888", BindVerb: "bind", HTTPTimeout: seconds(12), ManagedResources: resources,
	}
}

// changed is an entry with a change.
func changed(entry config.Extender, change func(*config.Extender)) config.Extender {
	change(&entry)
	return entry
}

func TestKubeSchedulerTakesWhatIsPrinted(t *testing.T) {
	counted := config.ExtenderManagedResource{Name: "example.com/a"}
	ignored := config.ExtenderManagedResource{Name: "example.com/b", IgnoredByScheduler: true}
	for name, test := range map[string]struct {
		gateway  string
		options  []string
		expected []config.Extender
	}{
		"the least": {filters, nil, []config.Extender{decide()}},
		"only what is used": {filters, []string{"--minimal"}, []config.Extender{changed(decide(), func(e *config.Extender) {
			e.PrioritizeVerb, e.PreemptVerb, e.Weight = "", "", 0
		})}},
		"no backend is called": {
			"backends: [{name: a, url: 'http://a:1', filter: {}, mode: Disabled}]\n", []string{"--minimal"},
			[]config.Extender{},
		},
		"the gateway's settings": {
			"extender: {address: '[::]:80', allowUnauthenticatedBind: true, verbs: {filter: predicates/always_true, bind: 'true'}}\n" +
				"timeouts: {decision: 1500ms, bind: 1h}\nnodes: {source: Request}\nbinder: BuiltIn\n" + filters,
			nil,
			[]config.Extender{
				changed(decide(), func(e *config.Extender) {
					e.URLPrefix, e.FilterVerb, e.NodeCacheCapable = "http://[::1]:80", "predicates/always_true", false
					e.HTTPTimeout = metav1.Duration{Duration: 6500 * time.Millisecond}
				}),
				changed(bind(), func(e *config.Extender) {
					e.URLPrefix, e.BindVerb = "http://[::1]:80", "true"
					e.HTTPTimeout = seconds(3602)
				}),
			},
		},
		"a binder of managed resources": {
			"extender: {allowUnauthenticatedBind: true}\nbinder: a\nbackends:\n" +
				"- {name: a, url: 'http://a:1', bind: {}, match: {managedResources: " +
				"[{name: example.com/a}, {name: example.com/b, ignoredByScheduler: true}]}}\n" +
				"- {name: b, url: 'http://b:1', filter: {}, match: {managedResources: [{name: example.com/a}]}}\n",
			nil, []config.Extender{decide(), bind(counted, ignored)},
		},
		"resources that are not counted, and everything is bound": {
			"extender: {allowUnauthenticatedBind: true}\nbinder: BuiltIn\nbackends:\n" +
				"- {name: a, url: 'http://a:1', filter: {}, match: {managedResources: " +
				"[{name: example.com/a}, {name: example.com/b, ignoredByScheduler: true}]}}\n" +
				"- {name: b, url: 'http://b:1', bind: {}, match: {managedResources: [{name: example.com/b}]}}\n",
			nil,
			[]config.Extender{decide(), bind(), {
				URLPrefix: "http://127.0.0.1:8888", ManagedResources: []config.ExtenderManagedResource{ignored},
			}},
		},
		"TLS": {
			"extender: {tls: {certFile: a, keyFile: b, clientCAFile: c}}\n" + filters,
			[]string{"--url", "https://gateway:1/", "--ca-file", "/ca file", "--cert-file", "/tls.crt", "--key-file", "/tls.key"},
			[]config.Extender{changed(decide(), func(e *config.Extender) {
				e.URLPrefix, e.EnableHTTPS = "https://gateway:1", true
				e.TLSConfig = &config.ExtenderTLSConfig{CAFile: "/ca file", CertFile: "/tls.crt", KeyFile: "/tls.key"}
			})},
		},
		"TLS with files to fill in": {
			"extender: {tls: {certFile: a, keyFile: b}}\n" + filters, nil,
			[]config.Extender{changed(decide(), func(e *config.Extender) {
				e.URLPrefix, e.EnableHTTPS = "https://127.0.0.1:8888", true
				e.TLSConfig = &config.ExtenderTLSConfig{CAFile: "/FILL/IN/ca.crt"}
			})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := print(t, gatewayHeader+test.gateway, test.options...)
			loaded, err := load(t, text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if found := diff.Diff(test.expected, loaded); found != "" {
				t.Errorf("expected and loaded differ: %s\n%s", found, text)
			}
		})
	}
}

func TestKubeSchedulerTakesTheExample(t *testing.T) {
	module, err := binaries.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(filepath.Dir(module), "gateway/examples/gateway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range [][]string{nil, {"--minimal"}, {"--kubernetes", "1.19"}} {
		extenders, err := load(t, print(t, string(example), option...))
		if err != nil || len(extenders) != 2 {
			t.Errorf("%v: %v, %v", option, extenders, err)
		}
	}
}

// TestTheLoaderRefuses shows that the tests above would notice entries that kube-scheduler does not accept.
func TestTheLoaderRefuses(t *testing.T) {
	text := print(t, gatewayHeader+"extender: {allowUnauthenticatedBind: true}\nbinder: BuiltIn\n"+filters)
	for wrong, change := range map[string][2]string{
		"unknown field":                       {"filterVerb", "filterPath"},
		"found 2 extenders implementing bind": {"filterVerb", "bindVerb"},
		"must have a positive weight":         {"weight: 1 ", "weight: 0 "},
	} {
		if _, err := load(t, strings.Replace(text, change[0], change[1], 1)); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%v: %v instead of %s", change, err, wrong)
		}
	}
}
