package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"extender-gateway.io/deploy/archive"
)

// buildOf is what the Go linker has written into the first program of an image.
func buildOf(release Release, folder string) (*debug.BuildInfo, error) {
	info, err := buildinfo.ReadFile(filepath.Join(folder, release.Programs[0]))
	if err != nil {
		return nil, fmt.Errorf("the modules in %s: %w", release.Programs[0], err)
	}
	return info, nil
}

// upstreamVersion is the version of a build of another project: with that project's.
func upstreamVersion(release Release, info *debug.BuildInfo) (string, error) {
	for _, module := range info.Deps {
		if module.Path == release.Upstream {
			return release.Version + "-" + path.Base(release.Upstream) + "-" + strings.TrimPrefix(used(module).Version, "v"), nil
		}
	}
	return "", fmt.Errorf("%s is built without the module %s", release.Programs[0], release.Upstream)
}

// used is the module whose code is linked. One that a folder of this repository replaces keeps its name.
func used(module *debug.Module) *debug.Module {
	if module.Replace == nil || module.Replace.Sum == "" {
		return module
	}
	return module.Replace
}

// WriteBOM lists the modules of a Go program, as `make dist` lists crates: in CycloneDX 1.5. The program does not have their
// licences, nor which of them needs which.
func WriteBOM(file string, info *debug.BuildInfo, release Release) error {
	list := cdx.NewBOM()
	list.SerialNumber = archive.Serial(release.Title, release.Source, release.Version, release.Revision)
	application := release.component()
	list.Metadata = &cdx.Metadata{Timestamp: release.Created.Format(time.RFC3339), Component: &application}
	components, err := linked(info, release)
	if err != nil {
		return err
	}
	needs := []string{}
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	list.Components, list.Dependencies = &components, &[]cdx.Dependency{{Ref: application.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(list, cdx.SpecVersion1_5); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// linked are Go's standard library and the modules.
func linked(info *debug.BuildInfo, release Release) ([]cdx.Component, error) {
	components := []cdx.Component{component("golang", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		found, err := moduleComponent(used(module), release)
		if err != nil {
			return nil, err
		}
		components = append(components, found)
	}
	return components, nil
}

func (r Release) component() cdx.Component {
	application := component("generic", r.Title, r.Version)
	application.Type = cdx.ComponentTypeApplication
	application.Licenses = &cdx.Licenses{{Expression: "Apache-2.0"}}
	application.ExternalReferences = &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: r.Source, Comment: r.Revision}}
	return application
}

func component(kind, name, version string) cdx.Component {
	purl := "pkg:" + kind + "/" + name + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl}
}

// moduleComponent has the checksum of go.sum, in the form of CycloneDX. A module of this repository has none; its version is
// that of the release.
func moduleComponent(module *debug.Module, release Release) (cdx.Component, error) {
	encoded, isOthers := strings.CutPrefix(module.Sum, "h1:")
	if !isOthers {
		ours := component("golang", module.Path, release.Version)
		ours.Licenses = &cdx.Licenses{{Expression: "Apache-2.0"}}
		return ours, nil
	}
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return cdx.Component{}, fmt.Errorf("the checksum of %s: %w", module.Path, err)
	}
	theirs := component("golang", module.Path, module.Version)
	theirs.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sum)}}
	return theirs, nil
}
