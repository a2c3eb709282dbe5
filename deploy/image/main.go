// Command image writes the container image: an OCI image layout, and an archive of it that container engines load.
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

	"extender-gateway.io/deploy/programs"
)

func main() {
	var release Release
	folder := flag.String("programs", "", "folder of the built programs")
	created := flag.Int64("created", 0, "time of the image, in seconds since 1970")
	directory := flag.String("layout", "", "folder to write the OCI image layout to; replaced")
	file := flag.String("archive", "", "file to write the archive of the layout to")
	flag.StringVar(&release.Name, "name", "extender-gateway", "name of the image, without a tag")
	flag.StringVar(&release.Version, "version", "", "version of the programs, and tag of the image")
	flag.StringVar(&release.Revision, "revision", "", "commit of the sources")
	flag.StringVar(&release.Source, "source", "", "URL of the sources")
	flag.Parse()
	release.Created = time.Unix(*created, 0).UTC()
	if err := run(release, *folder, *directory, *file); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(release Release, folder, directory, file string) error {
	image, err := Build(release, folder)
	if err != nil {
		return err
	}
	if err := WriteLayout(directory, image, release); err != nil {
		return err
	}
	if err := WriteArchive(file, directory, image, release); err != nil {
		return err
	}
	return report(image, release, directory, file)
}

// report prints the size of each layer, and the digest.
func report(image v1.Image, release Release, directory, file string) error {
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
		fmt.Printf("%9d bytes  %s\n", size, programs.Image[i])
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%9d bytes  in %d layers\n%s@%s\n", total, len(layers), release.Reference(), digest)
	fmt.Printf("OCI layout in %s, archive in %s\n", filepath.Clean(directory), filepath.Clean(file))
	return nil
}
