// Command generate writes the Go modules of tests/kube/schedulers: a go.mod with the versions of one release of
// Kubernetes, go.sum and main.go.
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"extender-gateway.io/tests/kube/schedulers"
)

// templates has the main.go of each kind.
//
//go:embed templates
var templates embed.FS

// main runs in the folder of the package schedulers, as go generate does.
func main() {
	for _, release := range schedulers.Releases() {
		if err := generate(release); err != nil {
			log.Fatalf("%s: %v", release.Program(), err)
		}
	}
}

func generate(release schedulers.Release) error {
	dir := release.Program()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	program, err := templates.ReadFile("templates/" + string(release.Kind) + ".txt")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), program, 0o644); err != nil {
		return err
	}
	staging, err := stagingOf(release)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), goMod(release, staging), 0o644); err != nil {
		return err
	}
	// An old go.sum would keep lines that nothing needs.
	if err := os.RemoveAll(filepath.Join(dir, "go.sum")); err != nil {
		return err
	}
	_, err = goCommand(dir, "mod", "tidy")
	return err
}

// moved are modules that a release requires and that no longer exist at their old place.
var moved = map[string][]string{
	"1.18": {"vbom.ml/util => github.com/fvbommel/util v0.0.3"},
}

// goMod requires Kubernetes, and replaces the modules that it requires as folders of its repository.
func goMod(release schedulers.Release, staging []string) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "module extender-gateway.io/tests/kube/schedulers/%s\n\ngo 1.26.0\n\n", release.Program())
	fmt.Fprintf(&text, "require k8s.io/kubernetes v%s\n\nreplace (\n", release.Version)
	for _, module := range staging {
		fmt.Fprintf(&text, "\t%s => %s %s\n", module, module, release.Staging())
	}
	for _, line := range moved[release.Minor()] {
		fmt.Fprintf(&text, "\t%s\n", line)
	}
	fmt.Fprintln(&text, ")")
	return text.Bytes()
}

// stagingOf lists the modules that Kubernetes publishes with the release.
func stagingOf(release schedulers.Release) (modules []string, err error) {
	out, err := goCommand(".", "mod", "download", "-json", "k8s.io/kubernetes@v"+release.Version)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ GoMod string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	out, err = goCommand(".", "mod", "edit", "-json", downloaded.GoMod)
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(out, &parsed); err != nil {
		return nil, err
	}
	for _, replaced := range parsed.Replace {
		if strings.HasPrefix(replaced.New.Path, "./staging/") {
			modules = append(modules, replaced.Old.Path)
		}
	}
	slices.Sort(modules)
	return modules, nil
}

func goCommand(dir string, args ...string) ([]byte, error) {
	command := exec.Command("go", args...)
	command.Dir = dir
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%v in %s: %w\n%s", command.Args, dir, err, said.String())
	}
	return out.Bytes(), nil
}
