package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// auditPolicy has kube-apiserver record the requests that bind pods, and how it answered them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create]
  resources: [{group: "", resources: [pods/binding]}]
- level: None
`

// auditFlags writes the policy and returns the flags of kube-apiserver.
func auditFlags(dir string) ([]string, error) {
	policy := filepath.Join(dir, "audit-policy.yaml")
	err := os.WriteFile(policy, []byte(auditPolicy), 0o600)
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog(dir)}, err
}

func auditLog(dir string) string { return filepath.Join(dir, "audit.log") }

// bindings are the requests to bind one pod, by their results.
type bindings struct{ created, refused int }

// bindingsOf reads the bindings of pods of a namespace, by name of the pod. A request whose answer kube-apiserver had not
// recorded when it was killed is missing.
func (s *scenario) bindingsOf(namespace string) map[string]bindings {
	s.Helper()
	log, err := os.ReadFile(auditLog(shared.Dir))
	s.must(err)
	found := map[string]bindings{}
	for line := range strings.Lines(string(log)) {
		var event struct {
			ObjectRef      struct{ Namespace, Name string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.ObjectRef.Namespace != namespace {
			continue
		}
		of := found[event.ObjectRef.Name]
		if event.ResponseStatus.Code == http.StatusCreated {
			of.created++
		} else {
			of.refused++
		}
		found[event.ObjectRef.Name] = of
	}
	return found
}
