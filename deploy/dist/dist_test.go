package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"

	"extender-gateway.io/deploy/programs"
)

// fake is a release of this checkout, with programs that print the words that they are given.
func fake(t *testing.T) release {
	t.Helper()
	folder := t.TempDir()
	for _, program := range programs.Archive {
		if err := os.WriteFile(filepath.Join(folder, program), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return release{
		version: "1.2.3", revision: "5ac0ffee", source: "https://example.com/source", downloads: "https://example.com/v1.2.3",
		created: time.Unix(1_700_000_000, 0).UTC(), programs: folder, root: "../..",
	}
}

func TestTheFilesOfARelease(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	if err := fake(t).write(out); err != nil {
		t.Fatal(err)
	}
	sums := read(t, out, "SHA256SUMS")
	var names []string
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if file := (published{name, read(t, out, name)}); file.sha256() != sum {
			t.Errorf("%s has another checksum", name)
		}
		names = append(names, name)
	}
	const programs = "extender-gateway-1.2.3-x86_64-linux.tar.gz"
	if expected := []string{programs, "extender-gateway-1.2.3.cdx.json", "extender.yaml"}; !slices.Equal(names, expected) {
		t.Fatalf("%q, expected %q", names, expected)
	}
	files := unpack(t, read(t, out, programs), "extender-gateway-1.2.3-x86_64-linux/")
	checkArchive(t, files)
	checkBOM(t, read(t, out, "extender-gateway-1.2.3.cdx.json"), files["third-party/crates.txt"])
	checkKrew(t, read(t, out, "extender.yaml"), published{programs, read(t, out, programs)}, files)
}

func read(t *testing.T, folder, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// unpack returns the files of an archive, all of which are in this folder.
func unpack(t *testing.T, compressed []byte, folder string) map[string]string {
	t.Helper()
	content, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(content); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		name, found := strings.CutPrefix(header.Name, folder)
		text, err := io.ReadAll(in)
		if err != nil || !found {
			t.Fatalf("%s: %v", header.Name, err)
		}
		if header.Typeflag == tar.TypeReg {
			files[name] = string(text)
		}
	}
}

func checkArchive(t *testing.T, files map[string]string) {
	t.Helper()
	expected := slices.Concat(programs.Archive, []string{
		"CHANGELOG.md", "LICENSE", "README.md", "extender-gateway-1.2.3.cdx.json",
		"completions/_extender-gateway", "completions/extender-gateway.bash", "completions/extender-gateway.fish",
		"third-party/LGPL-2.1.txt", "third-party/crates.txt", "third-party/glibc.txt", "third-party/libgcc.txt",
		"third-party/rust-standard-library.html",
	})
	slices.Sort(expected)
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, expected) {
		t.Errorf("%q, expected %q", names, expected)
	}
	if script := files["completions/extender-gateway.bash"]; script != "completion bash\n" {
		t.Errorf("the completions are %q", script)
	}
	if text := files["third-party/LGPL-2.1.txt"]; !strings.Contains(text, "GNU LESSER GENERAL PUBLIC LICENSE") {
		t.Error("the licence of the C library is missing")
	}
}

// checkBOM checks that every component has a licence, and that every crate is among the licences.
func checkBOM(t *testing.T, content []byte, licenses string) {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(content), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cdx.SpecVersion1_5 || bom.Metadata.Component.Version != "1.2.3" || bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("%+v", bom.Metadata)
	}
	references := map[string]bool{bom.Metadata.Component.BOMRef: true}
	for _, component := range *bom.Components {
		if component.Licenses == nil || (*component.Licenses)[0].Expression == "" || references[component.BOMRef] {
			t.Errorf("%+v", component)
		}
		references[component.BOMRef] = true
		theirs := component.Hashes != nil
		if theirs && !strings.Contains(licenses, "\n"+component.Name+" "+component.Version+": ") {
			t.Errorf("no licence of %s", component.Name)
		}
	}
	for _, purl := range []string{"pkg:cargo/extender-gateway@", "pkg:cargo/tokio@", "pkg:cargo/ring@", "pkg:generic/glibc@"} {
		if !slices.ContainsFunc(*bom.Components, func(c cdx.Component) bool { return strings.HasPrefix(c.PackageURL, purl) }) {
			t.Errorf("%s is missing", purl)
		}
	}
	for _, dependency := range *bom.Dependencies {
		needs := []string{dependency.Ref}
		if dependency.Dependencies != nil {
			needs = append(needs, *dependency.Dependencies...)
		}
		for _, reference := range needs {
			if !references[reference] {
				t.Errorf("%s is no component", reference)
			}
		}
	}
}

// checkKrew reads the manifest with krew's own types, and checks what krew would load and install.
func checkKrew(t *testing.T, content []byte, programs published, files map[string]string) {
	t.Helper()
	var plugin index.Plugin
	if err := yaml.UnmarshalStrict(content, &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Name != "extender" || plugin.Spec.Version != "v1.2.3" || plugin.Spec.Homepage != "https://example.com/source" {
		t.Errorf("%+v", plugin)
	}
	platform := plugin.Spec.Platforms[0]
	if platform.URI != "https://example.com/v1.2.3/"+programs.name || platform.Sha256 != programs.sha256() {
		t.Errorf("%+v", platform)
	}
	for _, operation := range platform.Files {
		if _, found := files[path.Base(operation.From)]; !found || operation.To != "." {
			t.Errorf("%+v is not in the archive", operation)
		}
	}
	if platform.Bin != "kubectl-extender" {
		t.Errorf("the program is %s", platform.Bin)
	}
}
