package binaries

import (
	"os"
	"path/filepath"
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
