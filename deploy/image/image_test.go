package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"extender-gateway.io/deploy/programs"
)

var release = Release{
	Product: products["gateway"],
	Name:    "extender-gateway", Version: "1.2.3", Revision: "5ac0ffee", Source: "https://example.com/source",
	Created: time.Unix(1_700_000_000, 0).UTC(),
}

// written is an image of small programs, as a layout and as an archive.
type written struct {
	image           v1.Image
	layout, archive string
}

// write writes the image of programs with this content.
func write(t *testing.T, release Release, content string) written {
	t.Helper()
	folder := t.TempDir()
	for _, program := range release.Programs {
		if err := os.WriteFile(filepath.Join(folder, program), []byte(program+content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	image, err := Build(release, folder)
	if err != nil {
		t.Fatal(err)
	}
	w := written{image, filepath.Join(folder, "image"), filepath.Join(folder, "image.tar")}
	if err := WriteLayout(w.layout, image, release); err != nil {
		t.Fatal(err)
	}
	if err := WriteArchive(w.archive, w.layout, image, release); err != nil {
		t.Fatal(err)
	}
	return w
}

func digests(t *testing.T, image v1.Image) (digests []v1.Hash) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	return digests
}

func TestTheSameProgramsAreTheSameImage(t *testing.T) {
	first, second := write(t, release, ""), write(t, release, "")
	archives := make([][]byte, 2)
	for i, file := range []string{first.archive, second.archive} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = content
	}
	if !slices.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same programs differ")
	}
}

func TestALaterVersionSharesTheLayersOfProgramsThatDidNotChange(t *testing.T) {
	later := release
	later.Version, later.Created = "1.2.4", release.Created.Add(time.Hour)
	before, after := write(t, release, ""), write(t, later, "")
	if !slices.Equal(digests(t, before.image), digests(t, after.image)) {
		t.Error("layers of the same programs differ")
	}
	changed := digests(t, write(t, later, "changed").image)
	if slices.ContainsFunc(changed, func(d v1.Hash) bool { return slices.Contains(digests(t, before.image), d) }) {
		t.Error("layers of changed programs are equal")
	}
}

func TestTheLayoutHasTheImageWithItsNames(t *testing.T) {
	w := write(t, release, "")
	index, err := layout.ImageIndexFromPath(w.layout)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	descriptor := manifest.Manifests[0]
	names := map[string]string{
		"org.opencontainers.image.ref.name": "1.2.3",
		"io.containerd.image.name":          "docker.io/library/extender-gateway:1.2.3",
	}
	if !maps.Equal(descriptor.Annotations, names) || descriptor.Platform.String() != "linux/amd64" {
		t.Errorf("%+v", descriptor)
	}
	media, err := w.image.MediaType()
	if err != nil || media != types.OCIManifestSchema1 || descriptor.MediaType != media {
		t.Errorf("%s, %v", media, err)
	}
}

func TestDockerReadsTheArchive(t *testing.T) {
	w := write(t, release, "")
	image, err := tarball.ImageFromPath(w.archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	loaded, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if built, err := w.image.ConfigName(); err != nil || built != loaded {
		t.Errorf("%s, expected %s (%v)", loaded, built, err)
	}
}

func TestTheConfiguration(t *testing.T) {
	w := write(t, release, "")
	file, err := w.image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, file)
	manifest, err := w.image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]string{
		"org.opencontainers.image.title":       "extender-gateway",
		"org.opencontainers.image.description": "A kube-scheduler extender in front of gRPC policy backends, and ready-made policies",
		"org.opencontainers.image.version":     "1.2.3",
		"org.opencontainers.image.revision":    "5ac0ffee",
		"org.opencontainers.image.source":      "https://example.com/source",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.created":     "2023-11-14T22:13:20Z",
	}
	if !maps.Equal(manifest.Annotations, expected) || !maps.Equal(file.Config.Labels, expected) {
		t.Errorf("annotations %v, labels %v", manifest.Annotations, file.Config.Labels)
	}
	if !file.Created.Equal(release.Created) || len(file.History) != len(programs.Image) {
		t.Errorf("%+v", file)
	}
}

// checkConfig checks what does not depend on the version.
func checkConfig(t *testing.T, file *v1.ConfigFile) {
	t.Helper()
	got, err := json.Marshal([]any{file.Config.User, file.Config.Entrypoint, file.Config.Cmd, file.Config.Env, file.Config.WorkingDir})
	if err != nil {
		t.Fatal(err)
	}
	const expected = `["65532:65532",["/usr/bin/extender-gateway"],` +
		`["serve","--config","/etc/extender-gateway/gateway.yaml"],["PATH=/usr/bin"],"/"]`
	if string(got) != expected {
		t.Errorf("%s, expected %s", got, expected)
	}
}

func TestEveryLayerIsOneProgram(t *testing.T) {
	layers, err := write(t, release, "").image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for i, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		expected := []string{"usr/", "usr/bin/", "usr/bin/" + programs.Image[i]}
		if names := entries(t, content); !slices.Equal(names, expected) {
			t.Errorf("layer %d: %q, expected %q", i, names, expected)
		}
	}
}

func entries(t *testing.T, content io.Reader) (names []string) {
	t.Helper()
	for in := tar.NewReader(content); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return names
		} else if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}
