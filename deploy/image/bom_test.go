package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// scheduler is a build of kube-scheduler: with a module of others, one that another version replaces, and one of this
// repository.
var scheduler = &debug.BuildInfo{
	GoVersion: "go1.26.8",
	Deps: []*debug.Module{
		{Path: "extender-gateway.io/plugin", Version: "v0.0.0", Replace: &debug.Module{Path: "../", Version: "(devel)"}},
		{Path: "k8s.io/api", Version: "v0.36.0", Replace: &debug.Module{Path: "k8s.io/api", Version: "v0.37.2", Sum: "h1:AQI="}},
		{Path: "k8s.io/kubernetes", Version: "v1.37.2", Sum: "h1:AQI="},
	},
}

func schedulerRelease() Release {
	of := release
	of.Product = products["scheduler"]
	return of
}

func TestTheListHasEveryModuleOfTheProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list.json")
	if err := WriteBOM(file, scheduler, schedulerRelease()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(content), cdx.BOMFileFormatJSON).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if list.SpecVersion != cdx.SpecVersion1_5 || list.Metadata.Timestamp != "2023-11-14T22:13:20Z" ||
		list.Metadata.Component.PackageURL != "pkg:generic/extender-gateway-kube-scheduler@1.2.3" {
		t.Errorf("%+v", list.Metadata)
	}
	expected := map[string]string{
		"pkg:golang/stdlib@1.26.8": "", "pkg:golang/extender-gateway.io/plugin@1.2.3": "",
		"pkg:golang/k8s.io/api@v0.37.2": "0102", "pkg:golang/k8s.io/kubernetes@v1.37.2": "0102",
	}
	for _, component := range *list.Components {
		sum, found := expected[component.PackageURL]
		if !found || (sum != "") != (component.Hashes != nil) || sum != "" && (*component.Hashes)[0].Value != sum {
			t.Errorf("%+v", component)
		}
	}
	if len(*list.Components) != len(expected) || len(*(*list.Dependencies)[0].Dependencies) != len(expected) {
		t.Errorf("%s", content)
	}
}

func TestTheTagOfTheSchedulerHasTheVersionOfKubernetes(t *testing.T) {
	version, err := upstreamVersion(schedulerRelease(), scheduler)
	if err != nil || version != "1.2.3-kubernetes-1.37.2" {
		t.Errorf("%s, %v", version, err)
	}
	if _, err := upstreamVersion(schedulerRelease(), &debug.BuildInfo{}); err == nil || !strings.Contains(err.Error(), "k8s.io/kubernetes") {
		t.Errorf("a program without Kubernetes: %v", err)
	}
	if _, err := buildOf(schedulerRelease(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "kube-scheduler") {
		t.Errorf("no program: %v", err)
	}
}

func TestTheSchedulerStartsAsThatOfKubernetes(t *testing.T) {
	config := config(schedulerRelease())
	if config.User != User || config.Entrypoint[0] != "/usr/local/bin/kube-scheduler" || config.Env[0] != "PATH=/usr/local/bin" || len(config.Cmd) > 0 {
		t.Errorf("%+v", config)
	}
}
