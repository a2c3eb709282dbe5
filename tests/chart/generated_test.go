package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const installHeader = `# The gateway and its policies as plain manifests, rendered from deploy/chart with deploy/chart/ci/install-values.yaml.
# Do not edit: change the chart and run ` + "`make chart`" + `. docs/install.md has the steps of an installation.
`

// generated are the files that are made from others, by path below the repository.
func generated(t *testing.T) map[string]string {
	t.Helper()
	got := template(t, "--values", chart+"/ci/install-values.yaml", "--skip-tests")
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	files := map[string]string{
		"deploy/install.yaml": installHeader + withoutSpaceAtEnds(strings.ReplaceAll(got.stdout, "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")),

		"deploy/chart/README.md": readmeWithValues(t),

		"deploy/chart/files/reservation-rules.yaml": clusterRoleRules(t, root+"/backends/policies/examples/reservation-rbac.yaml"),
	}
	return files
}

// clusterRoleRules are the rules of the ClusterRole of a file of manifests.
func clusterRoleRules(t *testing.T, file string) string {
	t.Helper()
	for _, manifest := range strings.Split(read(t, file), "\n---\n") {
		_, rules, found := strings.Cut(manifest, "\nrules:\n")
		if found && strings.Contains(manifest, "\nkind: ClusterRole\n") {
			return rules + "\n"
		}
	}
	t.Fatalf("%s has no ClusterRole", file)
	return ""
}

func withoutSpaceAtEnds(text string) string {
	return regexp.MustCompile(`(?m)[ \t]+$`).ReplaceAllString(text, "")
}

// TestGeneratedFilesAreFresh compares them; with -update it writes them.
func TestGeneratedFilesAreFresh(t *testing.T) {
	for path, want := range generated(t) {
		file := filepath.Join(root, path)
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if read(t, file) != want {
			t.Errorf("%s is out of date: run `make chart`", path)
		}
	}
}

// TestVersions expects the chart to install the version of the gateway that it is released with.
func TestVersions(t *testing.T) {
	version := regexp.MustCompile(`(?m)^version = "(.+)"$`).FindStringSubmatch(read(t, root+"/Cargo.toml"))[1]
	text := read(t, chart+"/Chart.yaml")
	for _, line := range []string{"\nversion: " + version + "\n", "\nappVersion: \"" + version + "\"\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("Chart.yaml does not have %q", line)
		}
	}
}

// explainedTogether are the values that the comment before an earlier value of the same block explains.
var explainedTogether = []string{
	"requests", "limits", "podLabels", "extraVolumeMounts", "caConfigMapName", "renewBefore",
	// Of the default policy.
	"program", "inPod", "rules", "filter", "score",
}

// TestEachValueHasAComment expects a comment before each value, or before the one that is explained together with it.
func TestEachValueHasAComment(t *testing.T) {
	lines := strings.Split(read(t, chart+"/values.yaml"), "\n")
	key := regexp.MustCompile(`^ *([a-zA-Z]+):`)
	for i, line := range lines {
		match := key.FindStringSubmatch(line)
		if match == nil || i == 0 || slices.Contains(explainedTogether, match[1]) {
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(lines[i-1]), "#") {
			t.Errorf("line %d has no comment: %s", i+1, line)
		}
	}
}
