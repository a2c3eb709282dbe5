package schedulers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEachReleaseHasItsModule(t *testing.T) {
	var programs []string
	for _, release := range Releases() {
		programs = append(programs, release.Program())
		text, err := os.ReadFile(filepath.Join(release.Program(), "go.mod"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, line := range []string{"k8s.io/kubernetes v" + release.Version + "\n", "k8s.io/api => k8s.io/api " + release.Staging() + "\n"} {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s/go.mod lacks %q: run `go generate ./kube/schedulers`", release.Program(), line)
			}
		}
		expectGenerated(t, release)
	}
	files, err := filepath.Glob("*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(programs, filepath.Dir(file)) {
			t.Errorf("%s is of no release", file)
		}
	}
}

func expectGenerated(t *testing.T, release Release) {
	t.Helper()
	template, err := os.ReadFile(filepath.Join("generate", "templates", string(release.Kind)+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(release.Program(), "main.go"))
	if err != nil || string(program) != string(template) {
		t.Errorf("%s/main.go differs from its template (%v): run `go generate ./kube/schedulers`", release.Program(), err)
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	if !slices.IsSortedFunc(Releases(), func(a, b Release) int { return a.MinorNumber() - b.MinorNumber() }) {
		t.Errorf("%v", Releases())
	}
	if got := (Release{Scheduler, "1.24.17"}); got.Program() != "kube-scheduler-1.24" || got.Staging() != "v0.24.17" {
		t.Errorf("%s, %s", got.Program(), got.Staging())
	}
}
