package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"extender-gateway.io/tests/e2e/product"
)

// previousEnv names the folder of the programs of the version before: `make previous` builds them.
const previousEnv = "EXTENDER_PREVIOUS_BIN_DIR"

const ssdNodes = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {disk: ssd, rack: r1}}, status: {allocatable: {cpu: "4", pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: b, labels: {disk: hdd, rack: r1}}, status: {allocatable: {cpu: "4", pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: c, labels: {disk: ssd, rack: r2}}, status: {allocatable: {cpu: "4", pods: "10"}}}
`

const ssdPod = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeSelector: {disk: ssd}, containers: [{name: c, image: x}]}
`

// With these args only rack r1 is left, too.
const inRack = `{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}}}`

// A gateway asks backends of the version before in their own package; an older one says that it does not know the newer.
func TestVersionsFindEachOther(t *testing.T) {
	previous := os.Getenv(previousEnv)
	if previous == "" {
		t.Skipf("%s is not set; `make previous` sets it", previousEnv)
	}
	program := func(t *testing.T, version, name string) string {
		t.Helper()
		if version == "previous" {
			return filepath.Join(previous, name)
		}
		path, err := product.Binary(name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ policy, gateway, says string }{
		{"this", "this", "3 of 3 nodes were offered, 1 left, 2 rejected; a has the highest total"},
		{"previous", "this", "3 of 3 nodes were offered, 1 left, 2 rejected; a has the highest total"},
		{"previous", "previous", "3 of 3 nodes were offered, 1 left, 2 rejected; a has the highest total"},
		{"this", "previous", "handshake failed: UNIMPLEMENTED"},
	} {
		t.Run(c.policy+" policy, "+c.gateway+" gateway", func(t *testing.T) {
			server := serve(t, program(t, c.policy, product.Policies), []string{product.NodeAffinity, "--address", "127.0.0.1:0"})
			said := try(t, program(t, c.gateway, product.Gateway), server.Address)
			if !strings.Contains(said, c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, said)
			}
		})
	}
}

// try is what the gateway's command says, whatever its exit code is.
func try(t *testing.T, gateway, policy string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"nodes.yaml": ssdNodes, "pod.yaml": ssdPod} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), gateway, "try", "--nodes", "nodes.yaml", "--pod", "pod.yaml",
		"--backend", "http://"+policy, "--args", inRack)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}
