package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"extender-gateway.io/deploy/archive"
)

// WriteLayout writes an OCI image layout. The tag is where skopeo and containerd look for it.
func WriteLayout(directory string, image v1.Image, release Release) error {
	reference, err := name.ParseReference(release.Reference())
	if err != nil {
		return err
	}
	if err := os.RemoveAll(directory); err != nil {
		return err
	}
	path, err := layout.Write(directory, empty.Index)
	if err != nil {
		return err
	}
	names := map[string]string{
		"org.opencontainers.image.ref.name": release.Version,
		// With the registry that containerd and the kubelet add to a name without one.
		"io.containerd.image.name": strings.Replace(reference.Name(), name.DefaultRegistry, "docker.io", 1),
	}
	return path.AppendImage(image, layout.WithAnnotations(names), layout.WithPlatform(platform))
}

// dockerManifest is manifest.json, which Docker reads before version 25.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// WriteArchive packs a layout into a tar archive: an OCI archive that is also a Docker archive.
func WriteArchive(file, directory string, image v1.Image, release Release) error {
	files, err := filesOf(directory)
	if err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	blob := func(descriptor v1.Descriptor) string {
		return "blobs/" + descriptor.Digest.Algorithm + "/" + descriptor.Digest.Hex
	}
	docker := dockerManifest{Config: blob(manifest.Config), RepoTags: []string{release.Reference()}}
	for _, layer := range manifest.Layers {
		docker.Layers = append(docker.Layers, blob(layer))
	}
	content, err := json.Marshal([]dockerManifest{docker})
	if err != nil {
		return err
	}
	files = append(files, archive.File{Name: "manifest.json", Mode: 0o644, Content: content})
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := archive.Write(out, release.Created, files); err != nil {
		return err
	}
	return out.Close()
}

func filesOf(directory string) (files []archive.File, err error) {
	err = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		file, err := archive.Read(path, filepath.ToSlash(inside), 0o644)
		files = append(files, file)
		return err
	})
	return files, err
}
