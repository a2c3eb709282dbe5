package binaries

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestPrebuiltProgramsAreTakenFromTheFolderGiven(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{Etcd, APIServer} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(AssetsEnv, dir)
	paths, err := Build(t.Context(), Etcd, APIServer)
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range paths {
		if path != filepath.Join(dir, name) {
			t.Errorf("%s is taken from %s", name, path)
		}
	}
}

func TestAFolderWithoutTheProgramsIsRefused(t *testing.T) {
	t.Setenv(AssetsEnv, t.TempDir())
	_, err := Build(t.Context(), Etcd)
	if err == nil || !strings.Contains(err.Error(), AssetsEnv) {
		t.Fatalf("got %v", err)
	}
}

func TestABuildThatFailsShowsWhatTheCompilerSaid(t *testing.T) {
	_, err := Build(t.Context(), "no-such-program")
	if err == nil || !strings.Contains(err.Error(), "kube/cmd/no-such-program") {
		t.Fatalf("got %v", err)
	}
}

func TestProgramsWithAModuleOfTheirOwnAreBuiltThere(t *testing.T) {
	got := sourcesOf("tests", []string{Etcd, Collector, Scheduler})
	want := []sources{
		{dir: "tests/kube/cmd/otel-collector", packages: []string{"."}},
		{dir: "tests", packages: []string{"./kube/cmd/etcd", "./kube/cmd/kube-scheduler"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestOtherReleasesAreBuiltWithTheirOwnModFile(t *testing.T) {
	got := sourcesOf("tests", []string{"kube-scheduler-1.24"})
	want := []sources{{
		dir: "tests", modFile: "kube/schedulers/kube-scheduler-1.24/go.mod", program: "kube-scheduler-1.24",
		packages: []string{"kube/cmd/kube-scheduler/main.go"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestTheFoldersWithAModuleOfTheirOwnAreKnown(t *testing.T) {
	module, err := ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(module, "kube/cmd/*/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		found = append(found, filepath.Base(filepath.Dir(file)))
	}
	if !slices.Equal(found, ownModules) {
		t.Errorf("%v have a go.mod", found)
	}
}
