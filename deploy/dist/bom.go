package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"extender-gateway.io/deploy/archive"
	"extender-gateway.io/deploy/programs"
)

// bom lists everything that is linked into the programs.
func (r release) bom(crates map[string]crate) (published, error) {
	list := cdx.NewBOM()
	list.SerialNumber = archive.Serial(r.source, r.version, r.revision)
	list.Metadata = &cdx.Metadata{Timestamp: r.created.Format(time.RFC3339), Component: r.component()}
	components, err := toolchain()
	if err != nil {
		return published{}, err
	}
	dependencies := []cdx.Dependency{r.direct(crates, components)}
	for _, key := range slices.Sorted(maps.Keys(crates)) {
		c := crates[key]
		components = append(components, c.component())
		dependencies = append(dependencies, dependency(c.purl(), c.needs, crates))
	}
	list.Components, list.Dependencies = &components, &dependencies
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(list, cdx.SpecVersion1_5)
	return published{"extender-gateway-" + r.version + ".cdx.json", out.Bytes()}, err
}

func (r release) component() *cdx.Component {
	purl := "pkg:generic/extender-gateway@" + r.version
	return &cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeApplication, Name: "extender-gateway", Version: r.version, PackageURL: purl,
		Licenses:           licenses("Apache-2.0"),
		ExternalReferences: &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: r.source, Comment: r.revision}},
	}
}

// direct are the crates with the programs, and what the toolchain links.
func (r release) direct(crates map[string]crate, toolchain []cdx.Component) cdx.Dependency {
	var keys []string
	for key, c := range crates {
		if c.ours && slices.Contains(programs.Crates, c.Name) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	found := dependency(r.component().BOMRef, keys, crates)
	for _, component := range toolchain {
		*found.Dependencies = append(*found.Dependencies, component.BOMRef)
	}
	return found
}

func dependency(of string, needs []string, crates map[string]crate) cdx.Dependency {
	references := []string{}
	for _, need := range needs {
		references = append(references, crates[need].purl())
	}
	return cdx.Dependency{Ref: of, Dependencies: &references}
}

// toolchain is what the compiler links statically besides crates.
func toolchain() ([]cdx.Component, error) {
	rust, err := rustVersion()
	if err != nil {
		return nil, err
	}
	glibc, err := glibcVersion()
	if err != nil {
		return nil, err
	}
	library := func(name, version, license string) cdx.Component {
		purl := "pkg:generic/" + name + "@" + version
		return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl,
			Licenses: licenses(license)}
	}
	return []cdx.Component{
		library("rust-std", rust, "MIT OR Apache-2.0"),
		library("glibc", glibc, "LGPL-2.1-or-later"),
	}, nil
}

func (c crate) purl() string {
	return "pkg:cargo/" + c.Name + "@" + strings.ReplaceAll(c.Version, "+", "%2B")
}

func (c crate) component() cdx.Component {
	component := cdx.Component{
		BOMRef: c.purl(), Type: cdx.ComponentTypeLibrary, Name: c.Name, Version: c.Version, PackageURL: c.purl(),
		// The form of before SPDX expressions.
		Licenses: licenses(strings.ReplaceAll(c.License, "/", " OR ")),
	}
	if c.checksum != "" {
		component.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: c.checksum}}
	}
	if c.Repository != "" {
		component.ExternalReferences = &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: c.Repository}}
	}
	return component
}

func licenses(expression string) *cdx.Licenses {
	return &cdx.Licenses{{Expression: expression}}
}
