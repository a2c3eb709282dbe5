package binaries

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Names of the programs under kube/cmd, and of one that is part of the product.
const (
	Etcd          = "etcd"
	APIServer     = "kube-apiserver"
	Scheduler     = "kube-scheduler"
	PlainExtender = "plain-extender"
	Collector     = "otel-collector"
	// PluginScheduler is kube-scheduler with the plugin of gateway/plugin. With the minor version of another release that it is built
	// for at its end, such as kube-scheduler-plugin-1.36, it is that release's.
	PluginScheduler = "kube-scheduler-plugin"
)

// Build makes programs of kube/cmd and kube/schedulers available and returns the path of each. The first build compiles
// Kubernetes and takes minutes; later ones cost about three seconds, since Go's build cache has everything
// and an unchanged program is not linked again.
func Build(ctx context.Context, names ...string) (map[string]string, error) {
	module, err := ModuleDir()
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	var missing []string
	for _, name := range names {
		path, prebuilt, err := prebuiltPath(name)
		if err != nil {
			return nil, err
		}
		if !prebuilt {
			path = filepath.Join(module, outDir, name)
			missing = append(missing, name)
		}
		paths[name] = path
	}
	return paths, goBuild(ctx, module, missing)
}

// outDir holds the programs. Each checkout has its own, so that checkouts never replace each other's.
const outDir = ".bin"

// goBuild compiles into outDir. One run at a time: test packages run in parallel and would link
// the same file twice.
func goBuild(ctx context.Context, module string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	unlock, err := lock(filepath.Join(module, outDir))
	if err != nil {
		return err
	}
	defer unlock()
	for _, s := range sourcesOf(module, names) {
		cmd := exec.CommandContext(ctx, "go", s.build(filepath.Join(module, outDir))...)
		cmd.Dir = s.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v in %s: %w\n%s", cmd.Args, s.dir, err, out)
		}
	}
	return nil
}
