package binaries

import (
	"path/filepath"

	"extender-gateway.io/tests/kube/schedulers"
)

// sources are packages of one Go module, which are built together.
type sources struct {
	// dir is where the go command runs.
	dir string
	// modFile is read instead of go.mod, if it has a name.
	modFile string
	// program names the only result, if its package has another name.
	program  string
	packages []string
}

// build are the arguments of the go command that puts the programs into a folder.
func (s sources) build(into string) []string {
	// Without the revision; otherwise each commit would link again.
	args := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", into + "/" + s.program}
	if s.modFile != "" {
		args = append(args, "-modfile="+s.modFile)
	}
	return append(args, s.packages...)
}

// ownModules are the folders of programs with their own go.mod. The collector would require newer versions of Kubernetes'
// dependencies; the scheduler with the plugin is part of the product.
var ownModules = map[string]string{
	Collector:       filepath.Join("kube", "cmd", Collector),
	PluginScheduler: filepath.Join("..", "gateway", "plugin", "kube-scheduler"),
}

// sourcesOf returns the packages of these programs: those of this module together, each other one alone.
func sourcesOf(module string, names []string) (list []sources) {
	here := sources{dir: module}
	for _, name := range names {
		folder, hasOwnModule := ownModules[name]
		switch release, isOfAnother := schedulers.Find(name); {
		case isOfAnother:
			list = append(list, sources{dir: module, modFile: release.ModFile(), program: name, packages: release.Files()})
		case hasOwnModule:
			list = append(list, sources{dir: filepath.Join(module, folder), program: name, packages: []string{"."}})
		default:
			here.packages = append(here.packages, "./kube/cmd/"+name)
		}
	}
	if len(here.packages) > 0 {
		list = append(list, here)
	}
	return list
}
