// Program modproxy writes the modules of some folders as a module proxy serves them, and so refuses what no proxy takes:
//
//	modproxy VERSION OUT FOLDER...
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: modproxy VERSION OUT FOLDER...")
	}
	version, out := os.Args[1], os.Args[2]
	for _, folder := range os.Args[3:] {
		if err := write(version, out, folder); err != nil {
			log.Fatalf("%s: %v", folder, err)
		}
	}
}

// write adds the module in a folder, without those below it.
func write(version, out, folder string) error {
	mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	served := module.Version{Path: modfile.ModulePath(mod), Version: version}
	versions := filepath.Join(out, served.Path, "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(archive, served, folder); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(versions, version+".mod"), mod, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(versions, version+".info"), fmt.Appendf(nil, `{"Version": %q}`, version), 0o644)
}
