package binaries

import (
	"fmt"
	"os"
	"path/filepath"
)

// AssetsEnv names a folder with a prebuilt etcd and kube-apiserver, as controller-runtime's envtest uses it.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// prebuiltPath looks for etcd and kube-apiserver in the folder of AssetsEnv. If the folder is set but lacks one of
// them, that is an error: building silently would test other programs than the configured ones.
func prebuiltPath(name string) (path string, prebuilt bool, err error) {
	dir := os.Getenv(AssetsEnv)
	if dir == "" || (name != Etcd && name != APIServer) {
		return "", false, nil
	}
	path = filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", false, fmt.Errorf("%s=%s has no %s (%w): put it there, or unset the variable to build it", AssetsEnv, dir, name, err)
	}
	return path, true, nil
}
