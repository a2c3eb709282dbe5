package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"

	"extender-gateway.io/deploy/archive"
	"extender-gateway.io/deploy/programs"
)

// completions are the names of the scripts where shells look for them.
var completions = map[string]string{
	"bash": "extender-gateway.bash", "zsh": "_extender-gateway", "fish": "extender-gateway.fish",
}

// archive packs programs, completions, documents and licences into one folder.
func (r release) archive(crates map[string]crate, bom published) (published, error) {
	files, err := r.files(crates)
	if err != nil {
		return published{}, err
	}
	files = append(files, archive.File{Name: bom.name, Mode: 0o644, Content: bom.content})
	folder := "extender-gateway-" + r.version + "-" + system
	for i := range files {
		files[i].Name = folder + "/" + files[i].Name
	}
	var out bytes.Buffer
	err = archive.WriteGzip(&out, r.created, files)
	return published{folder + ".tar.gz", out.Bytes()}, err
}

func (r release) files(crates map[string]crate) ([]archive.File, error) {
	files, err := thirdParty(crates)
	if err != nil {
		return nil, err
	}
	for _, program := range programs.Archive {
		file, err := archive.Read(filepath.Join(r.programs, program), program, 0o755)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	for _, document := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		file, err := archive.Read(filepath.Join(r.root, document), document, 0o644)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	for shell, name := range completions {
		command := exec.Command(filepath.Join(r.programs, programs.Gateway), "completion", shell)
		command.Stderr = os.Stderr
		script, err := command.Output()
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Name: "completions/" + name, Mode: 0o644, Content: script})
	}
	return files, nil
}
