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
	"extender-gateway.io/deploy/programs"
)

// User is the user and the group of the processes. It is numeric, so that `runAsNonRoot: true` can be checked.
const User = "65532:65532"

// programDir has the programs. It is in PATH, so that `command: [extender-policies]` in a pod starts one of them.
const programDir = "usr/bin"

// configFile is the configuration that the gateway serves by default.
const configFile = "/etc/extender-gateway/gateway.yaml"

// Release is what an image says about itself.
type Release struct {
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
		prefix + "title":       "extender-gateway",
		prefix + "description": "A kube-scheduler extender in front of gRPC policy backends, and ready-made policies",
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
	for _, program := range programs.Image {
		layer, err := layerOf(program, folder)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: created, CreatedBy: "COPY " + program + " /" + programDir + "/"}
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
	return v1.Config{
		User:       User,
		Entrypoint: []string{"/" + programDir + "/" + programs.Gateway},
		Cmd:        []string{"serve", "--config", configFile},
		Env:        []string{"PATH=/" + programDir},
		WorkingDir: "/",
		// The defaults of extender.address and metrics.address; admin.address is loopback by default.
		ExposedPorts: map[string]struct{}{"8888/tcp": {}, "9402/tcp": {}},
		Labels:       maps.Clone(release.labels()),
	}
}

// layerOf is a layer with this program. Its time is constant: the layer of a program that did not change is the same in
// the next version.
func layerOf(program, folder string) (v1.Layer, error) {
	file, err := archive.Read(filepath.Join(folder, program), programDir+"/"+program, 0o755)
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
