// Command generate writes the go.mod files of tests/kube/schedulers, each with the versions of one release of Kubernetes, and
// their sums.
package main

import (
	"bytes"
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

// root is tests/: go generate runs this in the folder of the package schedulers.
const root = "../.."

func main() {
	for _, release := range schedulers.Releases() {
		if err := generate(release); err != nil {
			log.Fatalf("%s: %v", release.Program(), err)
		}
	}
}

// generate tidies a module of the program alone: in tests/ it would have all packages.
func generate(release schedulers.Release) error {
	staging, err := stagingOf(release)
	if err != nil {
		return err
	}
	alone, err := os.MkdirTemp("", release.Program())
	if err != nil {
		return err
	}
	defer os.RemoveAll(alone)
	for _, file := range release.Files() {
		if err := copyFile(filepath.Join(root, file), filepath.Join(alone, filepath.Base(file))); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(alone, "go.mod"), goMod(release, staging), 0o644); err != nil {
		return err
	}
	if _, err := goCommand(alone, "mod", "tidy"); err != nil {
		return err
	}
	mod := filepath.Join(root, release.ModFile())
	if err := os.MkdirAll(filepath.Dir(mod), 0o755); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(alone, "go.mod"), mod); err != nil {
		return err
	}
	return copyFile(filepath.Join(alone, "go.sum"), filepath.Join(filepath.Dir(mod), "go.sum"))
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// moved are modules that a release requires and that no longer exist at their old place.
var moved = map[string][]string{
	"1.18": {"vbom.ml/util => github.com/fvbommel/util v0.0.3"},
}

// goMod requires Kubernetes, and replaces the modules that it requires as folders of its repository.
func goMod(release schedulers.Release, staging []string) []byte {
	var text bytes.Buffer
	fmt.Fprint(&text, "module extender-gateway.io/tests\n\ngo 1.26.0\n\n")
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
