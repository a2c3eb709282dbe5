package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/process"
)

// modeEnv is "tls" to check with mutual TLS, too.
const modeEnv = "EXTENDER_CONFORMANCE"

// result is what a backend did.
type result struct {
	backend  string
	cases    int
	failures []string
	warnings int
	// skipped counts the skipped cases by their reason.
	skipped map[string]int
	took    time.Duration
}

func TestBackendsConform(t *testing.T) {
	results := check(t, nil)
	report(t, "conformance.md", results)
}

func TestBackendsConformWithMutualTLS(t *testing.T) {
	if os.Getenv(modeEnv) != "tls" {
		t.Skipf("%s=tls runs it", modeEnv)
	}
	results := check(t, newIdentities(t))
	report(t, "conformance-tls.md", results)
}

// check runs the suite against several backends at once: most of the time it waits for answers that are late on purpose.
func check(t *testing.T, tls *identities) []result {
	t.Helper()
	suite, err := product.Binary("policy-conformance")
	if err != nil {
		t.Fatal(err)
	}
	backends := all(newCluster(t))
	results := make([]result, len(backends))
	t.Run("backends", func(t *testing.T) {
		for i, backend := range backends {
			t.Run(backend.name, func(t *testing.T) {
				t.Parallel()
				results[i] = checkOne(t, suite, backend, tls)
			})
		}
	})
	return results
}

func checkOne(t *testing.T, suite string, b backend, tls *identities) result {
	t.Helper()
	var replica []string
	if b.like != nil && tls == nil {
		path, err := b.like.program()
		if err != nil {
			t.Fatal(err)
		}
		replica = []string{"--replica", "http://" + serve(t, path, []string{"--address", "127.0.0.1:0"}).Address}
	}
	path, err := b.program()
	if err != nil {
		t.Fatal(err)
	}
	line, scheme := append(b.line(t), "--address", "127.0.0.1:0"), "http"
	if tls != nil {
		line, scheme = append(line, tls.serverOptions()...), "https"
	}
	server := serve(t, path, line)
	reports := outFolder(t, "conformance-reports")
	if tls != nil {
		reports = outFolder(t, "conformance-reports-tls")
	}
	file := filepath.Join(reports, strings.NewReplacer(" ", "-", "(", "", ")", "").Replace(b.name)+".yaml")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	// Others are checked at the same time, so slow calls say nothing.
	options := []string{"--call-timeout", "30s", "--wait", "30s", "--strict", "--quiet", "--report", file, "--endpoint", scheme + "://" + server.Address}
	if args := b.args(t); args != "" {
		options = append(options, "--args", args)
	}
	if b.otherArgs != "" {
		options = append(options, "--other-args", b.otherArgs)
	}
	for _, value := range b.values {
		options = append(options, "--value", value)
	}
	options = append(options, replica...)
	for _, name := range b.skip {
		options = append(options, "--skip", name)
	}
	if b.bind != "" {
		options = append(options, "--bind", b.bind)
	}
	if tls != nil {
		options = append(options, tls.clientOptions()...)
	}
	begun := time.Now()
	output, err := exec.CommandContext(t.Context(), suite, options...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	found := read(t, file)
	found.backend, found.took = b.name, time.Since(begun)
	return found
}

// serve runs a program until the test ends; it must end by itself after SIGTERM.
func serve(t *testing.T, path string, line []string) *process.Server {
	t.Helper()
	return serveIn(t, t.TempDir(), path, line)
}

// serveIn is serve with the folder of the log.
func serveIn(t *testing.T, dir, path string, line []string) *process.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name := strings.ReplaceAll(filepath.Base(path), ".", "-")
	server, err := process.Serve(ctx, process.Program{Name: name, Dir: dir, Path: path, Args: line}, "listening on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// published is a part of what policy-conformance writes.
type published struct {
	Results []struct{ Case, Outcome, Why string }
}

func read(t *testing.T, file string) result {
	t.Helper()
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return result{}
	}
	if err != nil {
		t.Fatal(err)
	}
	var parsed published
	if err := yaml.Unmarshal(content, &parsed); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
	found := result{cases: len(parsed.Results), skipped: map[string]int{}}
	for _, c := range parsed.Results {
		switch c.Outcome {
		case "failed":
			found.failures = append(found.failures, c.Case)
		case "skipped":
			found.skipped[c.Why]++
		case "warning":
			found.warnings++
		}
	}
	return found
}

// report writes the table of results, and logs it.
func report(t *testing.T, name string, results []result) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| backend | passed | failed | warnings | skipped | seconds | why skipped |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		var reasons []string
		skipped := 0
		for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
			skipped += r.skipped[reason]
			reasons = append(reasons, fmt.Sprintf("%s (%d)", reason, r.skipped[reason]))
		}
		passed := r.cases - len(r.failures) - r.warnings - skipped
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %.1f | %s |\n", r.backend, passed, len(r.failures), r.warnings, skipped,
			r.took.Seconds(), strings.Join(reasons, "; "))
	}
	t.Log("\n" + table.String())
	if err := os.WriteFile(filepath.Join(outFolder(t, ""), name), []byte(table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// outFolder is a folder for what tests leave to people, next to the module's.
func outFolder(t *testing.T, name string) string {
	t.Helper()
	module, err := binaries.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(module, ".out", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}
