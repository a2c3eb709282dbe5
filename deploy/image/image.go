package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"extender-gateway.io/deploy/archive"
)

// User is the user and the group of the processes. It is numeric, so that `runAsNonRoot: true` can be checked.
const User = "65532:65532"

// Release is an image, and what it says about itself.
type Release struct {
	Product
	// Name is without a tag, such as registry.example.com/extender-gateway.
	Name     string
	Version  string
	Revision string
	Source   string
	Created  time.Time
}

// Reference is the name with the tag.
func (r Release) Reference() string {
	return r.Name + ":" + r.Version
}

// labels are the pre-defined annotation keys of the OCI image specification.
func (r Release) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       r.Title,
		prefix + "description": r.Description,
		prefix + "version":     r.Version,
		prefix + "revision":    r.Revision,
		prefix + "source":      r.Source,
		prefix + "licenses":    "Apache-2.0",
		prefix + "created":     r.Created.Format(time.RFC3339),
	}
}

// Build makes the image of the programs in this folder. Each is a layer: a node that has one version of the image loads
// only the layers of the programs that changed.
func Build(release Release, folder string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: release.Created}
	var layers []mutate.Addendum
	for _, program := range release.Programs {
		layer, err := layerOf(filepath.Join(folder, program), release.Folder+"/"+program)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: created, CreatedBy: "COPY " + program + " /" + release.Folder + "/"}
		layers = append(layers, mutate.Addendum{Layer: layer, History: history, MediaType: types.OCILayer})
	}
	image, err := mutate.Append(image, layers...)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Created, file.OS, file.Architecture = created, platform.OS, platform.Architecture
	file.Config = config(release)
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, release.labels()).(v1.Image), nil
}

var platform = v1.Platform{OS: "linux", Architecture: "amd64"}

func config(release Release) v1.Config {
	ports := map[string]struct{}{}
	for _, port := range release.Ports {
		ports[port] = struct{}{}
	}
	return v1.Config{
		User:         User,
		Entrypoint:   []string{"/" + release.Folder + "/" + release.Programs[0]},
		Cmd:          release.Arguments,
		Env:          []string{"PATH=/" + release.Folder},
		WorkingDir:   "/",
		ExposedPorts: ports,
		Labels:       maps.Clone(release.labels()),
	}
}

// layerOf is a layer with this program, under this name. Its time is constant: the layer of a program that did not change is
// the same in the next version.
func layerOf(program, name string) (v1.Layer, error) {
	file, err := archive.Read(program, name, 0o755)
	if err != nil {
		return nil, err
	}
	var tar bytes.Buffer
	if err := archive.Write(&tar, time.Unix(0, 0), []archive.File{file}); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(tar.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
