package binaries

import (
	"path/filepath"
	"slices"
)

// sources are packages of one Go module, which are built together.
type sources struct {
	// dir is where the go command runs.
	dir      string
	packages []string
}

// ownModules are the programs whose folder has a go.mod of its own: newer versions of what Kubernetes is built from
// would come with them.
var ownModules = []string{Collector}

// sourcesOf says where the programs of these names are: those of this module at once, each other one alone.
func sourcesOf(module string, names []string) (list []sources) {
	here := sources{dir: module}
	for _, name := range names {
		if slices.Contains(ownModules, name) {
			list = append(list, sources{dir: filepath.Join(module, "kube", "cmd", name), packages: []string{"."}})
		} else {
			here.packages = append(here.packages, "./kube/cmd/"+name)
		}
	}
	if len(here.packages) > 0 {
		list = append(list, here)
	}
	return list
}
