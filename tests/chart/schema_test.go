package chart

import (
	"encoding/json"
	"sort"
	"strings"
	"testing"
)

// TestSchema has values of wrong types, misspelled names and unknown words, each with the place that the message names.
func TestSchema(t *testing.T) {
	for values, place := range map[string]string{
		"replica: 3":                                                      "replica",
		"replicas: two":                                                   "/replicas",
		"replicas: -1":                                                    "/replicas",
		"image: {repository: 'a:b c'}":                                    "/image/repository",
		"image: {tag: '-x'}":                                              "/image/tag",
		"image: {digest: 'sha256:1'}":                                     "/image/digest",
		"image: {pullPolicy: Sometimes}":                                  "/image/pullPolicy",
		"image: {name: a}":                                                "/image",
		"imagePullSecrets: [registry]":                                    "/imagePullSecrets/0",
		"command: serve":                                                  "/command",
		"command: []":                                                     "/command",
		"config: {binder: ''}":                                            "/config/binder",
		"config: {bindr: BuiltIn}":                                        "/config",
		"config: {timeouts: {decision: 1}}":                               "/config/timeouts/decision",
		"config: {timeouts: {decision: 1.5s}}":                            "/config/timeouts/decision",
		"config: {extender: {address: 'localhost:8888'}}":                 "/config/extender/address",
		"config: {extender: {maxRequestBytes: 1Ti}}":                      "/config/extender/maxRequestBytes",
		"config: {extender: {verbs: {filter: /filter}}}":                  "/config/extender/verbs/filter",
		"config: {traces: {ratio: 2}}":                                    "/config/traces/ratio",
		"config: {exempt: {namespaces: [Shop]}}":                          "/config/exempt/namespaces/0",
		"policies: {name: a}":                                             "/policies",
		"policies: [{name: 1}]":                                           "/policies/0/name",
		"policies: [{name: a, fliter: {}}]":                               "/policies/0",
		"policies: [{name: a, filter: true}]":                             "/policies/0/filter",
		"policies: [{name: a, filter: {failurePolicy: fail}}]":            "/policies/0/filter/failurePolicy",
		"policies: [{name: a, filter: {weight: 1}}]":                      "/policies/0/filter",
		"policies: [{name: a, score: {weight: 0}}]":                       "/policies/0/score/weight",
		"policies: [{name: a, program: rules}]":                           "/policies/0/program",
		"policies: [{name: a, image: {tag: v1}}]":                         "/policies/0/image",
		"policies: [{name: a, port: 0}]":                                  "/policies/0/port",
		"policies: [{name: a, inPod: 'yes'}]":                             "/policies/0/inPod",
		"policies: [{name: a, probe: HTTP}]":                              "/policies/0/probe",
		"policies: [{name: a, rules: {}}]":                                "/policies/0/rules",
		"policies: [{name: a, match: {namespace: a}}]":                    "/policies/0/match",
		"policies: [{name: a, match: {managedResources: [{name: cpu}]}}]": "/policies/0/match/managedResources/0/name",
		"policies: [{name: a, match: {podSelector: {matchExpressions: [{key: a, operator: Is}]}}}]": "/policies/0/match/podSelector/matchExpressions/0/operator",
		"policies: [{name: a, tls: {certFile: a}}]":                                                 "/policies/0/tls",
		"policyDefaults: {replicas: 0}":                                                             "/policyDefaults/replicas",
		"resources: {limit: {memory: 1Gi}}":                                                         "/resources",
		"priorityQuota: {pods: 0}":                                                                  "/priorityQuota/pods",
		"spread: {nodes: true}":                                                                     "/spread/nodes",
		"hostNetwork: 'yes'":                                                                        "/hostNetwork",
		"dnsPolicy: Host":                                                                           "/dnsPolicy",
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: a}]":                                 "/topologySpreadConstraints/0",
		"podSecurityContext: 7":                                                                     "/podSecurityContext",
		"extraObjects: [7]":                                                                         "/extraObjects/0",
		"nodeSelector: [a]":                                                                         "/nodeSelector",
		"nodeSelector: {a: true}":                                                                   "/nodeSelector/a",
		"terminationGracePeriodSeconds: 30s":                                                        "/terminationGracePeriodSeconds",
		"podDisruptionBudget: {maxUnavailable: 0}":                                                  "/podDisruptionBudget/maxUnavailable",
		"secondScheduler: {name: A}":                                                                "/secondScheduler/name",
		"service: {type: Headless}":                                                                 "/service/type",
		"service: {port: 70000}":                                                                    "/service/port",
		"tls: {mode: Off}":                                                                          "/tls/mode",
		"tls: {certManager: {issuer: a}}":                                                           "/tls/certManager",
		"tls: {certManager: {duration: 90d}}":                                                       "/tls/certManager/duration",
		"tls: {clients: {clientCertificate: None}}":                                                 "/tls/clients/clientCertificate",
		"serviceAccount: {create: 'true'}":                                                          "/serviceAccount/create",
		"rbac: {enabled: true}":                                                                     "/rbac",
		"networkPolicy: {egress: {}}":                                                               "/networkPolicy/egress",
		"networkPolicy: {schedulerFrom: {cidr: 10.0.0.0/8}}":                                        "/networkPolicy/schedulerFrom",
		"networkPolicy: {apiServerPorts: []}":                                                       "/networkPolicy/apiServerPorts",
		"serviceMonitor: {interval: often}":                                                         "/serviceMonitor/interval",
		"prometheusRule: {labels: [a]}":                                                             "/prometheusRule/labels",
		"prometheusRule: {runbookBaseURL: example.com}":                                             "/prometheusRule/runbookBaseURL",
		"prometheusRule: {runbookBaseURL: 'https://example.com/'}":                                  "/prometheusRule/runbookBaseURL",
		"dashboard: true":                                                                           "/dashboard",
		"dashboard: {annotations: [a]}":                                                             "/dashboard/annotations",
		"dashboard: {folder: 1}":                                                                    "/dashboard/folder",
		"fullnameOverride: Gateway":                                                                 "/fullnameOverride",
		"namespace: policies":                                                                       "/namespace",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			got := withValues(t, values)
			if got.err == nil || !strings.Contains(got.stderr, "schema") || !strings.Contains(got.stderr, place) {
				t.Errorf("%v: %s", got.err, got.stderr)
			}
		})
	}
}

// TestTheSchemaKnowsAllValues expects the schema to be strict at each object, and to have exactly the values of
// values.yaml at the top.
func TestTheSchemaKnowsAllValues(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	expectStrict(t, "", schema)
	known := keys(schema["properties"].(map[string]any))
	got := objects(t, read(t, chart+"/values.yaml"))[0]
	// Helm adds global itself.
	if want := append(keys(got), "global"); strings.Join(known, " ") != strings.Join(sorted(want), " ") {
		t.Errorf("%v\n%v", known, want)
	}
}

func expectStrict(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	if schema["properties"] != nil && schema["additionalProperties"] != false {
		t.Errorf("%s allows other properties", path)
	}
	for key, value := range schema {
		if below, ok := value.(map[string]any); ok {
			expectStrict(t, path+"/"+key, below)
		}
	}
}

func keys(of map[string]any) (list []string) {
	for key := range of {
		list = append(list, key)
	}
	return sorted(list)
}

func sorted(list []string) []string {
	sort.Strings(list)
	return list
}
