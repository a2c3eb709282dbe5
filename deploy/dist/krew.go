package main

import (
	"bytes"
	"path/filepath"
	"text/template"
)

// krew fills the manifest of the kubectl plugin with the version and the checksum of the archive.
func (r release) krew(programs published) (published, error) {
	manifest, err := template.New("extender.yaml").Option("missingkey=error").
		ParseFiles(filepath.Join(r.root, "deploy/krew/extender.yaml"))
	if err != nil {
		return published{}, err
	}
	var out bytes.Buffer
	err = manifest.Execute(&out, map[string]string{
		"Version": r.version, "Homepage": r.source, "SHA256": programs.sha256(),
		"URI": r.downloads + "/" + programs.name,
	})
	return published{"extender.yaml", out.Bytes()}, err
}
