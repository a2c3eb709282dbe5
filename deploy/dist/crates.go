package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"extender-gateway.io/deploy/programs"
)

// crate is a package of Rust whose code is in the programs.
type crate struct {
	Name       string
	Version    string
	License    string
	Repository string
	// directory has its sources; ours are those of the workspace.
	directory string
	ours      bool
	// checksum is the SHA-256 of its package in the registry.
	checksum string
	// needs are the keys of the crates that it links.
	needs []string
}

func (c crate) key() string {
	return c.Name + " " + c.Version
}

// linked returns the crates of the programs by key. `cargo tree` knows which features are on and so which crates are
// linked, `cargo metadata` the rest about them. Programs that run at build time, such as procedural macros, are left out.
func linked(root string) (map[string]crate, error) {
	arguments := []string{"tree", "--locked", "--target", target, "--edges", "normal,no-proc-macro",
		"--prefix", "none", "--format", "{p}"}
	for _, name := range programs.Crates {
		arguments = append(arguments, "--package", name)
	}
	tree, err := cargo(root, arguments...)
	if err != nil {
		return nil, err
	}
	described, err := cargo(root, "metadata", "--locked", "--format-version", "1", "--filter-platform", target)
	if err != nil {
		return nil, err
	}
	lock, err := os.ReadFile(filepath.Join(root, "Cargo.lock"))
	if err != nil {
		return nil, err
	}
	all, err := cratesOf(described)
	if err != nil {
		return nil, err
	}
	sums, crates := checksums(lock), map[string]crate{}
	for _, key := range keys(tree) {
		found, known := all[key]
		if !known {
			return nil, fmt.Errorf("cargo metadata does not know %s", key)
		}
		found.checksum = sums[key]
		crates[key] = found
	}
	for key, linked := range crates {
		linked.needs = slices.DeleteFunc(linked.needs, func(need string) bool { return crates[need].Name == "" })
		crates[key] = linked
	}
	return crates, nil
}

func cargo(root string, arguments ...string) ([]byte, error) {
	command := exec.Command("cargo", arguments...)
	command.Dir, command.Stderr = root, os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("cargo %s: %w", arguments[0], err)
	}
	return out, nil
}

// keys are those in lines such as `anyhow v1.0.100` or `extender-otlp v0.1.0 (/folder)`.
func keys(tree []byte) []string {
	found := map[string]bool{}
	for line := range strings.Lines(string(tree)) {
		if words := strings.Fields(line); len(words) >= 2 {
			found[words[0]+" "+strings.TrimPrefix(words[1], "v")] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// metadata is the part of `cargo metadata` that is used.
type metadata struct {
	Packages []struct {
		crate
		ID       string
		Source   string
		Manifest string `json:"manifest_path"`
	}
	Resolve struct {
		Nodes []struct {
			ID   string
			Deps []struct {
				Pkg   string
				Kinds []struct{ Kind *string } `json:"dep_kinds"`
			}
		}
	}
}

func cratesOf(described []byte) (map[string]crate, error) {
	var m metadata
	if err := json.Unmarshal(described, &m); err != nil {
		return nil, err
	}
	names, crates := map[string]string{}, map[string]crate{}
	for _, p := range m.Packages {
		c := p.crate
		c.directory, c.ours = filepath.Dir(p.Manifest), p.Source == ""
		names[p.ID], crates[c.key()] = c.key(), c
	}
	for _, node := range m.Resolve.Nodes {
		c := crates[names[node.ID]]
		for _, dependency := range node.Deps {
			for _, kind := range dependency.Kinds {
				// Others are for tests or for build scripts.
				if kind.Kind == nil && !slices.Contains(c.needs, names[dependency.Pkg]) {
					c.needs = append(c.needs, names[dependency.Pkg])
				}
			}
		}
		slices.Sort(c.needs)
		crates[c.key()] = c
	}
	return crates, nil
}

// checksums reads those of Cargo.lock, by key.
func checksums(lock []byte) map[string]string {
	sums, c := map[string]string{}, crate{}
	for lines := bufio.NewScanner(bytes.NewReader(lock)); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), " = ")
		value = strings.Trim(value, `"`)
		switch field {
		case "name":
			c.Name = value
		case "version":
			c.Version = value
		case "checksum":
			sums[c.key()] = value
		}
	}
	return sums
}
