package binaries

import (
	"path/filepath"
	"slices"

	"extender-gateway.io/tests/kube/schedulers"
)

// sources are packages of one Go module, which are built together.
type sources struct {
	// dir is where the go command runs.
	dir      string
	packages []string
}

// ownModules are the programs whose folder has its own go.mod: they would require newer versions of Kubernetes'
// dependencies.
var ownModules = []string{Collector}

// sourcesOf returns the packages of these programs: those of this module together, each other one alone.
func sourcesOf(module string, names []string) (list []sources) {
	here := sources{dir: module}
	for _, name := range names {
		switch {
		case slices.Contains(ownModules, name):
			list = append(list, sources{dir: filepath.Join(module, "kube", "cmd", name), packages: []string{"."}})
		case isOfAnotherRelease(name):
			list = append(list, sources{dir: filepath.Join(module, "kube", "schedulers", name), packages: []string{"."}})
		default:
			here.packages = append(here.packages, "./kube/cmd/"+name)
		}
	}
	if len(here.packages) > 0 {
		list = append(list, here)
	}
	return list
}

// isOfAnotherRelease reports whether the program is one of kube/schedulers.
func isOfAnotherRelease(name string) bool {
	return slices.ContainsFunc(schedulers.Releases(), func(r schedulers.Release) bool { return r.Program() == name })
}
