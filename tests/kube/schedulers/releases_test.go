package schedulers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEachReleaseHasItsModFile(t *testing.T) {
	var mods []string
	for _, release := range Releases() {
		mods = append(mods, release.Program()+"/go.mod")
		text, err := os.ReadFile(filepath.Join("../..", release.ModFile()))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, line := range []string{"k8s.io/kubernetes v" + release.Version + "\n", "k8s.io/api => k8s.io/api " + release.Staging() + "\n"} {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s lacks %q: run `go generate ./kube/schedulers`", release.ModFile(), line)
			}
		}
	}
	files, err := filepath.Glob("*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(mods, file) {
			t.Errorf("%s is of no release", file)
		}
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
