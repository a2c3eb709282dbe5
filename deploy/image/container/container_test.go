package container

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"extender-gateway.io/deploy/programs"
)

// maxSize is the largest compressed size of the image, in bytes.
const maxSize = 26_000_000

const gatewayYAML = `apiVersion: extender-gateway.io/v1alpha1
kind: GatewayConfiguration
extender: {address: "127.0.0.1:8888"}
metrics: {address: "127.0.0.1:9402"}
nodes: {source: Request}
backends:
- {name: by-dns, url: "http://policies.cluster.test:9000", filter: {timeout: 5s, failurePolicy: Fail}}
- {name: by-hosts, url: "http://policies.hosts.test:9000", filter: {timeout: 5s, failurePolicy: Fail}}
timeouts: {decision: 10s}
`

const rulesYAML = `rules:
- name: racks
  require: [{key: rack, notIn: [b]}]
  reason: rack is being drained
`

const filterCall = `{"Pod": {"metadata": {"name": "web-0", "namespace": "shop", "uid": "u"}, "spec": {"containers": []}},
"Nodes": {"items": [{"metadata": {"name": "node-a", "labels": {"rack": "a"}}}, {"metadata": {"name": "node-b", "labels": {"rack": "b"}}}]}}`

// mounted is what a container engine or a pod mounts.
func mounted() map[string]string {
	return map[string]string{
		"etc/extender-gateway/gateway.yaml": gatewayYAML,
		"etc/rules.yaml":                    rulesYAML,
		"etc/resolv.conf":                   "nameserver 127.0.0.1\nsearch svc.test test\noptions ndots:5\n",
		"etc/hosts":                         "127.0.0.1 localhost policies.hosts.test\n",
	}
}

func TestTheImageHasTheProgramsAndNothingElse(t *testing.T) {
	image := built(t)
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	if size > maxSize {
		t.Errorf("%d bytes, expected at most %d", size, maxSize)
	}
	r := unpack(t, image, nil)
	var names []string
	err = filepath.WalkDir(filepath.Join(r.path, "usr"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, entry.Name())
			checkProgram(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	expected := slices.Sorted(slices.Values(programs.Image))
	if !slices.Equal(names, expected) {
		t.Errorf("%q, expected %q", names, expected)
	}
}

// checkProgram checks that a program needs no library and has no symbols.
func checkProgram(t *testing.T, path string) {
	t.Helper()
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	if err != nil || len(libraries) > 0 || program.Section(".symtab") != nil || program.Section(".debug_line") != nil {
		t.Errorf("%s needs %q (%v), or has symbols", path, libraries, err)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("%s needs a dynamic linker", path)
		}
	}
}

func TestEveryProgramStarts(t *testing.T) {
	r := unpack(t, built(t), nil)
	for _, program := range programs.Image {
		help, err := r.command("/usr/bin/"+program, "--help").Output()
		if err != nil || !strings.Contains(string(help), "Usage:") {
			t.Errorf("%s --help: %v %s", program, err, help)
		}
	}
}

func TestTheGatewayAsksAPolicy(t *testing.T) {
	image := built(t)
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Config.User != fmt.Sprintf("%d:%d", user, user) {
		t.Errorf("the user is %s", file.Config.User)
	}
	resolve(t, "policies.cluster.test")
	files := mounted()
	files["etc/kubeconfig"] = startApiserver(t)
	r := unpack(t, image, files)
	if err := os.WriteFile(filepath.Join(r.path, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("the root file system is not read-only: %v", err)
	}
	policy := r.start(t, "/usr/bin/extender-policies", "label-rules", "--rules", "/etc/rules.yaml", "--address", "127.0.0.1:9000")
	policy.after(t, "listening on ")
	command := slices.Concat(file.Config.Entrypoint, file.Config.Cmd)
	gateway := r.start(t, command[0], command[1:]...)
	gateway.after(t, "extender listening on ")
	checkIdentity(t, gateway.Process.Pid)

	waitReady(t)
	reply := post(t, "http://127.0.0.1:8888/filter", filterCall)
	var result struct {
		Nodes struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		FailedAndUnresolvableNodes map[string]string
		Error                      string
	}
	if err := json.Unmarshal(reply, &result); err != nil {
		t.Fatal(err)
	}
	nodes := result.Nodes.Items
	if result.Error != "" || len(nodes) != 1 || nodes[0].Metadata.Name != "node-a" ||
		!strings.HasSuffix(result.FailedAndUnresolvableNodes["node-b"], ": rack is being drained") {
		t.Errorf("%s", reply)
	}
	if metrics := get(t, "http://127.0.0.1:9402/metrics"); !strings.Contains(metrics, "process_resident_memory_bytes") {
		t.Error("the metrics of the process are missing")
	}
	checkPlugin(t, r)
	gateway.stop(t)
	policy.stop(t)
}

// checkIdentity checks the user and the groups of a process.
func checkIdentity(t *testing.T, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	identity := fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d\nGid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", user)
	if byRoot() && !strings.Contains(string(status), identity) {
		t.Errorf("expected user and group %d:\n%s", user, status)
	}
}

// checkPlugin asks for the gateway's version through an apiserver, whose certificate is trusted by the kubeconfig alone:
// the image has no certificates of authorities.
func checkPlugin(t *testing.T, r root) {
	t.Helper()
	plugin := r.command("/usr/bin/kubectl-extender", "version", "--kubeconfig", "/etc/kubeconfig", "--gateway-namespace", "gateways")
	versions, err := plugin.Output()
	if err != nil || strings.Count(string(versions), "\n") != 2 || !strings.Contains(string(versions), "\nGateway ") {
		t.Errorf("version: %v\n%s", err, versions)
	}
}

func waitReady(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://127.0.0.1:9402/readyz")
		if err != nil {
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err == nil && response.StatusCode == http.StatusOK {
			return
		}
		t.Logf("/readyz: %d %s", response.StatusCode, body)
	}
	t.Fatal("the gateway is not ready after a minute")
}

func post(t *testing.T, url, body string) []byte {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return content(t, response)
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return string(content(t, response))
}

func content(t *testing.T, response *http.Response) []byte {
	t.Helper()
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", response.Request.URL, response.Status, err)
	}
	return content
}
