package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const deploy = "../../../deploy"

// helmPath is where the tests of tests/chart build helm, too.
var helmPath string

func buildHelm() (err error) {
	if helmPath, err = filepath.Abs("../../.bin/helm"); err != nil {
		return err
	}
	command := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", helmPath, "helm.sh/helm/v4/cmd/helm")
	command.Dir = "../../chart"
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build helm: %w\n%s", err, out)
	}
	return nil
}

// template renders the chart as a release in a namespace.
func template(t *testing.T, namespace string, values ...string) []*unstructured.Unstructured {
	t.Helper()
	args := []string{"template", "extender-gateway", deploy + "/chart", "--namespace", namespace, "--kube-version", "1.37.0", "--skip-tests"}
	for _, file := range values {
		args = append(args, "--values", file)
	}
	command := exec.CommandContext(t.Context(), helmPath, args...)
	home := t.TempDir()
	command.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return manifests(t, string(out))
}

// manifests reads YAML documents.
func manifests(t *testing.T, text string) (list []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		var object map[string]any
		must(t, yaml.Unmarshal([]byte(document), &object))
		if object != nil {
			list = append(list, &unstructured.Unstructured{Object: object})
		}
	}
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// output is what a program prints.
func output(t *testing.T, path string, args ...string) string {
	t.Helper()
	var said bytes.Buffer
	command := exec.CommandContext(t.Context(), path, args...)
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", command.Args, err, said.String())
	}
	return string(out)
}
