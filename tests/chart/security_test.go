package chart

import "testing"

// podOf is the pod of a Deployment.
func podOf(t *testing.T, list []object, name string) map[string]any {
	t.Helper()
	return at[map[string]any](find(t, list, "Deployment", name), "spec", "template", "spec")
}

// securityOf is the security context of a pod and of its first container, as JSON; null if there is none.
func securityOf(t *testing.T, list []object, name string) [2]string {
	t.Helper()
	pod := podOf(t, list, name)
	return [2]string{asJSON(t, pod["securityContext"]), asJSON(t, at[[]any](pod, "containers")[0].(map[string]any)["securityContext"])}
}

const noRights = `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true}`

// TestOpenShiftChoosesUserAndGroups expects no pod to have fields that restricted-v2 refuses.
func TestOpenShiftChoosesUserAndGroups(t *testing.T) {
	list := rendered(t)["openshift"]
	for _, name := range []string{release, release + "-racks"} {
		want := [2]string{`{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`, noRights}
		if got := securityOf(t, list, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSecurityContexts expects the fields of a policy to replace those of all pods, and null to leave fields out.
func TestSecurityContexts(t *testing.T) {
	got := withValues(t, `
podSecurityContext: {supplementalGroups: [7]}
securityContext: {readOnlyRootFilesystem: null}
policies:
- {name: same, program: spread, filter: {}}
- name: own
  program: spread
  filter: {}
  podSecurityContext: {runAsUser: 1000, fsGroup: null}
  securityContext: {allowPrivilegeEscalation: true, capabilities: null}
- {name: none, program: spread, filter: {}, podSecurityContext: null, securityContext: null}
`)
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	const (
		all = `{"fsGroup":65532,"runAsGroup":65532,"runAsNonRoot":true,"runAsUser":65532,"seccompProfile":{"type":"RuntimeDefault"},"supplementalGroups":[7]}`
		own = `{"runAsGroup":65532,"runAsNonRoot":true,"runAsUser":1000,"seccompProfile":{"type":"RuntimeDefault"},"supplementalGroups":[7]}`
	)
	container := `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}`
	list := objects(t, got.stdout)
	for name, want := range map[string][2]string{
		release:           {all, container},
		release + "-same": {all, container},
		release + "-own":  {own, `{"allowPrivilegeEscalation":true}`},
		release + "-none": {"null", "null"},
	} {
		if got := securityOf(t, list, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	got = withValues(t, "podSecurityContext: null\nsecurityContext: null")
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	if got := securityOf(t, objects(t, got.stdout), release); got != [2]string{"null", "null"} {
		t.Errorf("%v", got)
	}
}
