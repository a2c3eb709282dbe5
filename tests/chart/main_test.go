package chart

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// update makes the tests of generated files write them.
var update = flag.Bool("update", false, "write deploy/install.yaml and the chart's copies of files")

const (
	root  = "../.."
	chart = root + "/deploy/chart"
	// release is the name and the namespace of the release that tests render.
	release = "extender-gateway"
	// kubeVersion is what the manifests are rendered for, unless a test says otherwise.
	kubeVersion = "1.37.0"
)

// helmPath is the helm that TestMain builds.
var helmPath string

func TestMain(m *testing.M) {
	flag.Parse()
	if err := buildHelm(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// buildHelm links helm unless it is up to date. The first build compiles it and takes minutes.
func buildHelm() (err error) {
	if helmPath, err = filepath.Abs("../.bin/helm"); err != nil {
		return err
	}
	out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", helmPath, "helm.sh/helm/v4/cmd/helm").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build helm: %w\n%s", err, out)
	}
	return nil
}

// result is what a program printed.
type result struct {
	stdout, stderr string
	err            error
}

// run runs a program without the user's own settings of helm.
func run(t *testing.T, stdin, path string, args ...string) result {
	t.Helper()
	command := exec.CommandContext(t.Context(), path, args...)
	home := t.TempDir()
	command.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "POD_NAMESPACE="+release)
	command.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	return result{stdout: stdout.String(), stderr: stderr.String(), err: err}
}

// template runs helm template as an operator does, with further arguments.
func template(t *testing.T, args ...string) result {
	t.Helper()
	return templateOf(t, "", args...)
}

// withValues renders the chart with these values.
func withValues(t *testing.T, values string) result {
	t.Helper()
	return templateOf(t, values, "--values", "-")
}

func templateOf(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	all := append([]string{"template", release, chart, "--namespace", release, "--kube-version", kubeVersion}, args...)
	return run(t, stdin, helmPath, all...)
}

// valuesFiles are the files of deploy/chart/ci.
func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v %v", files, err)
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
