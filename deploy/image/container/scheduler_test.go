package container

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// schedulerVariable names the folder of the layout of kube-scheduler's image.
const schedulerVariable = "EXTENDER_GATEWAY_SCHEDULER_IMAGE"

// maxSchedulerSize is the largest compressed size of that image, in bytes.
const maxSchedulerSize = 40_000_000

// Nothing listens there: kube-scheduler starts without an apiserver, and waits for it.
const schedulerKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`

// schedulerConfig has a profile with the plugin, with these arguments.
func schedulerConfig(arguments string) map[string]string {
	return map[string]string{
		"etc/kubernetes/scheduler.conf": schedulerKubeconfig,
		"etc/kubernetes/scheduler.yaml": `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: DefaultPreemption}], enabled: [{name: ExtenderGateway, weight: 10}]}
    bind: {enabled: [{name: ExtenderGateway}]}
  pluginConfig: [{name: ExtenderGateway, args: ` + arguments + `}]
`,
	}
}

// scheduler is the image, and its entrypoint. `make test` does not compile Kubernetes once more for it.
func scheduler(t *testing.T) (image v1.Image, file *v1.ConfigFile, program string) {
	t.Helper()
	path := os.Getenv(schedulerVariable)
	if path == "" {
		t.Skip("only by make scheduler-image-test: make nightly runs it")
	}
	image = imageIn(t, path)
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return image, file, file.Config.Entrypoint[0]
}

func TestSchedulerIsOneStaticProgramOfTheVersionInTheTag(t *testing.T) {
	image, file, program := scheduler(t)
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].Size > maxSchedulerSize {
		t.Errorf("expected one layer of at most %d bytes: %+v", maxSchedulerSize, manifest.Layers)
	}
	if file.Config.User != fmt.Sprintf("%d:%d", user, user) {
		t.Errorf("the user is %s", file.Config.User)
	}
	r := unpack(t, image, nil)
	checkProgram(t, filepath.Join(r.path, program))
	_, kubernetes, _ := strings.Cut(manifest.Annotations["org.opencontainers.image.version"], "-kubernetes-")
	version, err := r.command(program, "--version").Output()
	if err != nil || string(version) != "Kubernetes v"+kubernetes+"\n" {
		t.Errorf("%s--version: %v; expected v%s", version, err, kubernetes)
	}
}

func TestSchedulerEndsWithTheMistakeInTheArgumentsOfThePlugin(t *testing.T) {
	image, _, program := scheduler(t)
	r := unpack(t, image, schedulerConfig("{timeout: 5s}"))
	command := r.command(program, "--config=/etc/kubernetes/scheduler.yaml")
	command.Stderr = nil
	_, err := command.Output()
	exit, ended := errors.AsType[*exec.ExitError](err)
	if !ended || !strings.Contains(string(exit.Stderr), "args of plugin ExtenderGateway: socket: is required") {
		t.Errorf("%v", err)
		if ended {
			t.Errorf("%s", exit.Stderr)
		}
	}
}

func TestSchedulerServesWithAReadOnlyRoot(t *testing.T) {
	image, _, program := scheduler(t)
	r := unpack(t, image, schedulerConfig("{socket: /run/extender-gateway/plugin.sock}"))
	if err := os.WriteFile(filepath.Join(r.path, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("the root file system is not read-only: %v", err)
	}
	running := r.start(t, program, "--config=/etc/kubernetes/scheduler.yaml")
	waitLive(t)
	checkIdentity(t, running.Process.Pid)
}

// waitLive waits until kube-scheduler answers with its own certificate, which it keeps in memory.
func waitLive(t *testing.T) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		response, err := client.Get("https://127.0.0.1:10259/livez")
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatal("kube-scheduler is not live after a minute")
}
