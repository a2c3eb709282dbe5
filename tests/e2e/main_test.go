// Package e2e runs the product's binaries against a real kube-scheduler, kube-apiserver and etcd. Where an ordinary
// Go extender should decide the same, it is called, too.
//
// One control plane serves the whole package; each scenario has its own nodes, pods, kube-scheduler and policies,
// and removes them. Run it with -v for the list of results, and with -timeout 30m if Kubernetes has not been
// compiled yet.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// environment is what all scenarios share.
type environment struct {
	*controlplane.Cluster
	// plainExtender is the path of that program.
	plainExtender string
}

// shared is set by TestMain before any test runs.
var shared environment

// The namespaces that scenarios and rule files use.
const (
	shop   = "shop"
	search = "search"
	other  = "default"
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// run keeps the logs only if something failed.
func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "extender-gateway-e2e-")
	if err != nil {
		return 1, err
	}
	err = shared.start(dir)
	if err == nil {
		results.note(productUsed())
		code = m.Run()
		results.print(os.Stdout)
	}
	err = errors.Join(err, shared.stop())
	if err != nil || code != 0 {
		fmt.Fprintln(os.Stderr, "e2e: all logs are kept in", dir)
		return code, err
	}
	return code, os.RemoveAll(dir)
}

func (e *environment) start(dir string) error {
	built, err := binaries.Build(context.Background(), binaries.PlainExtender)
	if err != nil {
		return err
	}
	e.plainExtender = built[binaries.PlainExtender]
	// Compiling Kubernetes is limited only by go test's own timeout; started processes have a limit.
	if _, err := binaries.Build(context.Background(), binaries.Etcd, binaries.APIServer, binaries.Scheduler); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	flags, err := auditFlags(dir)
	if err != nil {
		return err
	}
	if e.Cluster, err = controlplane.StartWith(ctx, dir, append(flags, groupFlags...)...); err != nil {
		return err
	}
	return objects.CreateNamespaces(ctx, e.Client, shop, search, other)
}

// productUsed returns which binaries are tested, because an old one is easily left behind.
func productUsed() string {
	var text strings.Builder
	for _, name := range []string{product.Gateway, product.Policies} {
		path, err := product.Binary(name)
		if err != nil {
			fmt.Fprintln(&text, err)
		} else if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&text, "%s was built %s ago: %s\n", name, time.Since(info.ModTime()).Round(time.Second), path)
		}
	}
	return text.String()
}

func (e *environment) stop() error {
	if e.Cluster == nil {
		return nil
	}
	return e.Cluster.Stop()
}
