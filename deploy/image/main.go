// Command image writes a container image: an OCI image layout, and an archive of it that container engines load. One has the
// gateway; another, which is a Go program, kube-scheduler with the gateway's plugin.
//
// It uses go-containerregistry, the library behind crane and ko. buildah and umoci need an engine's storage or take the
// time of the build into the layers, and a writer of our own would repeat what the library tests.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	release := Release{Product: products["gateway"]}
	var out outputs
	flag.Func("product", "image to write: gateway (default) or scheduler", func(name string) (err error) {
		release.Product, err = productOf(name)
		return err
	})
	folder := flag.String("programs", "", "folder of the built programs")
	created := flag.Int64("created", 0, "time of the image, in seconds since 1970")
	flag.StringVar(&out.layout, "layout", "", "folder to write the OCI image layout to; replaced")
	flag.StringVar(&out.archive, "archive", "", "file to write the archive of the layout to")
	flag.StringVar(&out.bom, "bom", "", "file to write the list of Go modules to, for the scheduler")
	flag.StringVar(&release.Name, "name", "extender-gateway", "name of the image, without a tag")
	flag.StringVar(&release.Version, "version", "", "version of the programs, and tag of the image")
	flag.StringVar(&release.Revision, "revision", "", "commit of the sources")
	flag.StringVar(&release.Source, "source", "", "URL of the sources")
	flag.Parse()
	release.Created = time.Unix(*created, 0).UTC()
	if err := run(release, *folder, out); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// outputs are what the command writes.
type outputs struct {
	layout, archive, bom string
}

func run(release Release, folder string, out outputs) error {
	if release.Upstream != "" {
		info, err := buildOf(release, folder)
		if err != nil {
			return err
		}
		if release.Version, err = upstreamVersion(release, info); err != nil {
			return err
		}
		if err := WriteBOM(out.bom, info, release); err != nil {
			return err
		}
	}
	image, err := Build(release, folder)
	if err != nil {
		return err
	}
	if err := WriteLayout(out.layout, image, release); err != nil {
		return err
	}
	if err := WriteArchive(out.archive, out.layout, image, release); err != nil {
		return err
	}
	return report(image, release, out)
}

// report prints the size of each layer, and the digest.
func report(image v1.Image, release Release, out outputs) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	var total int64
	for i, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return err
		}
		total += size
		fmt.Printf("%9d bytes  %s\n", size, release.Programs[i])
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%9d bytes  in %d layers\n%s@%s\n", total, len(layers), release.Reference(), digest)
	fmt.Printf("OCI layout in %s, archive in %s\n", filepath.Clean(out.layout), filepath.Clean(out.archive))
	if out.bom != "" {
		fmt.Printf("list of modules in %s\n", filepath.Clean(out.bom))
	}
	return nil
}
