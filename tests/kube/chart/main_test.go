package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// shared is set by TestMain before any test runs.
var shared struct {
	*controlplane.Cluster
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	// audit is the log of all requests to kube-apiserver.
	audit string
	// authority is the folder of the certificate authority for users of kube-apiserver.
	authority string
}

func TestMain(m *testing.M) {
	// A script of a test runs this program as kubeadm.
	if filepath.Base(os.Args[0]) == "kubeadm" {
		runKubeadm()
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		code = 1
	}
	os.Exit(code)
}

// run keeps the logs only if something failed.
func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "extender-gateway-chart-")
	if err != nil {
		return 1, err
	}
	defer func() {
		if shared.Cluster != nil {
			err = errors.Join(err, shared.Stop())
		}
		if code == 0 && err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "logs are in", dir)
		}
	}()
	if err := start(dir); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// auditPolicy writes who asked for what, without the objects.
const auditPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"

// start runs an apiserver that authorizes by RBAC and logs each request.
func start(dir string) (err error) {
	if err := buildHelm(); err != nil {
		return err
	}
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	shared.audit, shared.authority = filepath.Join(dir, "audit.log"), filepath.Join(dir, "authority")
	users, err := writeAuthority(shared.authority)
	if err != nil {
		return err
	}
	shared.Cluster, err = controlplane.StartWith(context.Background(), dir,
		"--authorization-mode=RBAC", "--audit-policy-file="+policy, "--audit-log-path="+shared.audit, "--client-ca-file="+users)
	if err != nil {
		return err
	}
	if err := objects.CreateNodes(context.Background(), shared.Client, objects.Nodes(4)); err != nil {
		return err
	}
	// The dynamic client has no protobuf.
	config := rest.CopyConfig(shared.REST)
	config.ContentType = "application/json"
	if shared.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	shared.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	return nil
}
