package legacypolicy

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/json"
)

// gateway is the path of the product's program: in the folder that the environment names, or in cargo's output
// folder.
func gateway(t *testing.T) string {
	t.Helper()
	dirs := []string{"../../../target/release", "../../../target/debug"}
	if dir := os.Getenv("EXTENDER_GATEWAY_BIN_DIR"); dir != "" {
		dirs = []string{dir}
	}
	for _, dir := range dirs {
		path, err := filepath.Abs(filepath.Join(dir, "extender-gateway"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatalf("extender-gateway is not built (looked in %s): run `cargo build --release --bin extender-gateway`, "+
		"or name the folder that has it in EXTENDER_GATEWAY_BIN_DIR", strings.Join(dirs, " and "))
	return ""
}

// print runs scheduler-config for kube-scheduler 1.18.
func print(t *testing.T, config string, options ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	header := "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n"
	if err := os.WriteFile(file, []byte(header+config), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"scheduler-config", "--kubernetes", "1.18", "--config", file}
	command := exec.Command(gateway(t), append(arguments, options...)...)
	var errors bytes.Buffer
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errors.String())
	}
	return out
}

// extender has the fields of LegacyExtender without its lenient UnmarshalJSON.
type extender configv1.LegacyExtender

// load reads a policy with kube-scheduler's own decoder, and then its extenders strictly: only known fields, in the
// right case.
func load(text []byte) ([]extender, error) {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, kind, err := decoder.Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	policy, ok := object.(*configv1.Policy)
	if !ok {
		return nil, fmt.Errorf("%v is not a policy", kind)
	}
	var raw struct {
		Extenders []stdjson.RawMessage `json:"extenders"`
	}
	if err := stdjson.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	extenders := make([]extender, len(raw.Extenders))
	for at, text := range raw.Extenders {
		strict, err := json.UnmarshalStrict(text, &extenders[at])
		if err != nil || len(strict) > 0 {
			return nil, fmt.Errorf("extenders[%d]: %v %v", at, err, strict)
		}
		if !reflect.DeepEqual(configv1.LegacyExtender(extenders[at]), policy.Extenders[at]) {
			return nil, fmt.Errorf("extenders[%d]: strictly %v, as kube-scheduler reads it %v", at, extenders[at], policy.Extenders[at])
		}
	}
	return extenders, nil
}

func TestTheLastPolicyTypesTakeWhatIsPrinted(t *testing.T) {
	const resources = "match: {managedResources: [{name: example.com/a}, {name: example.com/b, ignoredByScheduler: true}]}"
	decide := extender{
		URLPrefix: "http://127.0.0.1:8888", FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt",
		Weight: 1, NodeCacheCapable: true, HTTPTimeout: 3 * time.Second,
	}
	bind := extender{URLPrefix: "http://127.0.0.1:8888", BindVerb: "bind", HTTPTimeout: 12 * time.Second}
	managed := []configv1.ExtenderManagedResource{{Name: "example.com/a"}, {Name: "example.com/b", IgnoredByScheduler: true}}
	limited := bind
	limited.ManagedResources = managed
	ignored := extender{URLPrefix: "http://127.0.0.1:8888", ManagedResources: managed[1:]}
	minimal := decide
	minimal.FilterVerb, minimal.PreemptVerb, minimal.NodeCacheCapable = "", "", false
	minimal.HTTPTimeout = 6 * time.Second
	tls := decide
	tls.URLPrefix, tls.EnableHTTPS = "https://gateway:1", true
	tls.TLSConfig = &configv1.ExtenderTLSConfig{CAFile: "/ca.crt", CertFile: "/FILL/IN/tls.crt", KeyFile: "/FILL/IN/tls.key"}
	for name, test := range map[string]struct {
		config   string
		options  []string
		expected []extender
	}{
		"the least":         {"backends: [{name: a, url: 'http://a:1', filter: {}}]", nil, []extender{decide}},
		"only what is used": {"nodes: {source: Request}\nbackends: [{name: a, url: 'http://a:1', score: {}}]", []string{"--minimal"}, []extender{minimal}},
		"a binder":          {"extender: {allowUnauthenticatedBind: true}\nbinder: a\nbackends: [{name: a, url: 'http://a:1', bind: {}, " + resources + "}]", nil, []extender{decide, limited}},
		"not counted":       {"extender: {allowUnauthenticatedBind: true}\nbinder: BuiltIn\nbackends: [{name: a, url: 'http://a:1', filter: {}, " + resources + "}]", nil, []extender{decide, bind, ignored}},
		"TLS": {
			"extender: {tls: {certFile: a, keyFile: b, clientCAFile: c}}\nbackends: [{name: a, url: 'http://a:1', filter: {}}]",
			[]string{"--url", "https://gateway:1", "--ca-file", "/ca.crt"},
			[]extender{tls},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := print(t, test.config, test.options...)
			loaded, err := load(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if !reflect.DeepEqual(loaded, test.expected) {
				t.Errorf("%+v instead of %+v\n%s", loaded, test.expected, text)
			}
		})
	}
}

// TestOtherFormsAreRefused shows that the test above would notice unknown fields.
func TestOtherFormsAreRefused(t *testing.T) {
	text := string(print(t, "backends: [{name: a, url: 'http://a:1', filter: {}}]"))
	for from, to := range map[string]string{
		"Policy": "KubeSchedulerConfiguration", "extenders": "extender", "filterVerb": "filterverb", "3000000000": "\"3s\"",
	} {
		if _, err := load([]byte(strings.Replace(text, from, to, 1))); err == nil {
			t.Errorf("%s instead of %s is taken", to, from)
		}
	}
}
