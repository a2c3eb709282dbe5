package binaries

import (
	"path/filepath"
	"strings"

	"extender-gateway.io/tests/kube/schedulers"
)

// sources are packages of one Go module, which are built together.
type sources struct {
	// dir is where the go command runs.
	dir string
	// modFile is read instead of go.mod, if it has a name.
	modFile string
	// tag selects files, if it has a name.
	tag string
	// program names the only result, if its package has another name.
	program  string
	packages []string
}

// build are the arguments of the go command that puts the programs into a folder.
func (s sources) build(into string) []string {
	// Without the revision; otherwise each commit would link again.
	args := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", into + "/" + s.program}
	if s.modFile != "" {
		args = append(args, "-modfile="+s.modFile, "-tags="+s.tag)
	}
	return append(args, s.packages...)
}

// ownModules are the folders of programs with their own go.mod. The collector would require newer versions of Kubernetes'
// dependencies; the scheduler with the plugin is part of the product.
var ownModules = map[string]string{
	Collector:       filepath.Join("kube", "cmd", Collector),
	PluginScheduler: filepath.Join("..", "gateway", "plugin", "kube-scheduler"),
}

// pluginReleases has a file such as 1.36.mod for each other release that PluginScheduler is built for.
const pluginReleases = "releases/"

// PluginReleases are the minor versions of these releases, oldest first.
func PluginReleases() (minors []string, err error) {
	module, err := ModuleDir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(module, ownModules[PluginScheduler], pluginReleases, "*.mod"))
	for _, file := range files {
		minors = append(minors, strings.TrimSuffix(filepath.Base(file), ".mod"))
	}
	return minors, err
}

// sourcesOf returns the packages of these programs: those of this module together, each other one alone.
func sourcesOf(module string, names []string) (list []sources) {
	here := sources{dir: module}
	for _, name := range names {
		folder, hasOwnModule := ownModules[name]
		minor, isOfPlugin := strings.CutPrefix(name, PluginScheduler+"-")
		switch release, isOfAnother := schedulers.Find(name); {
		case isOfAnother:
			list = append(list, sources{dir: module, modFile: release.ModFile(), program: name, packages: release.Files()})
		case isOfPlugin:
			dir := filepath.Join(module, ownModules[PluginScheduler])
			list = append(list, sources{dir: dir, modFile: pluginReleases + minor + ".mod", tag: "kubernetes" + minor, program: name, packages: []string{"."}})
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
