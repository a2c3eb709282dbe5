package schedulerconfig

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"extender-gateway.io/tests/e2e/product"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// print runs scheduler-config on a gateway's configuration.
func print(t *testing.T, gateway string, options ...string) string {
	t.Helper()
	binary, err := product.Binary(product.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(gateway), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, append([]string{"scheduler-config", "--config", file}, options...)...)
	var errors bytes.Buffer
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errors.String())
	}
	return string(out)
}

// load reads a KubeSchedulerConfiguration with these lines as kube-scheduler does: strictly, with defaults,
// and then validates it.
func load(t *testing.T, lines string) ([]config.Extender, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kube-scheduler.yaml")
	if err := os.WriteFile(file, []byte(header+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := options.LoadConfigFromFile(klog.Background(), file)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(loaded); err != nil {
		return nil, fmt.Errorf("validate: %w", err)
	}
	return loaded.Extenders, nil
}
