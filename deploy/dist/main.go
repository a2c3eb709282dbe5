// Command dist writes what is published besides the image: the archive of the programs, its list of dependencies
// (CycloneDX), the manifest of the kubectl plugin, and checksums of all.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// target is the Rust target of the programs, and system its short name in the name of the archive.
const (
	target = "x86_64-unknown-linux-gnu"
	system = "x86_64-linux"
)

// release is what is published, and where.
type release struct {
	version   string
	revision  string
	source    string
	downloads string
	created   time.Time
	// programs is the folder of the built programs, and root that of the sources.
	programs, root string
}

func main() {
	var r release
	created := flag.Int64("created", 0, "time of the files, in seconds since 1970")
	out := flag.String("out", "", "folder to write to; replaced")
	flag.StringVar(&r.version, "version", "", "version of the programs")
	flag.StringVar(&r.revision, "revision", "", "commit of the sources")
	flag.StringVar(&r.source, "source", "", "URL of the sources")
	flag.StringVar(&r.downloads, "downloads", "", "URL of the folder that the files are published in")
	flag.StringVar(&r.programs, "programs", "", "folder of the built programs")
	flag.StringVar(&r.root, "root", "..", "folder of the sources")
	flag.Parse()
	r.created = time.Unix(*created, 0).UTC()
	if err := r.write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// published is one file of the release.
type published struct {
	name    string
	content []byte
}

func (p published) sha256() string {
	return fmt.Sprintf("%x", sha256.Sum256(p.content))
}

func (r release) write(out string) error {
	crates, err := linked(r.root)
	if err != nil {
		return err
	}
	bom, err := r.bom(crates)
	if err != nil {
		return err
	}
	programs, err := r.archive(crates, bom)
	if err != nil {
		return err
	}
	plugin, err := r.krew(programs)
	if err != nil {
		return err
	}
	files := []published{programs, bom, plugin}
	sums := published{name: "SHA256SUMS"}
	for _, file := range files {
		sums.content = fmt.Appendf(sums.content, "%s  %s\n", file.sha256(), file.name)
	}
	return save(out, append(files, sums))
}

func save(out string, files []published) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		path := filepath.Join(out, file.name)
		if err := os.WriteFile(path, file.content, 0o644); err != nil {
			return err
		}
		fmt.Printf("%9d bytes  %s\n", len(file.content), path)
	}
	return nil
}
