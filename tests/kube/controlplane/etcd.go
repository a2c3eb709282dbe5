package controlplane

import (
	"context"
	"net/http"
	"path/filepath"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/process"
)

// startEtcd runs one member that relies on the page cache: no data must survive a power failure.
func (c *Cluster) startEtcd(ctx context.Context) (err error) {
	client, err := c.reserve()
	if err != nil {
		return err
	}
	peer, err := c.reserve()
	if err != nil {
		return err
	}
	c.etcdURL = client.URL("http")
	c.etcdArgs = []string{
		"--data-dir=" + filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls=" + c.etcdURL,
		"--advertise-client-urls=" + c.etcdURL,
		"--listen-peer-urls=" + peer.URL("http"),
		"--initial-advertise-peer-urls=" + peer.URL("http"),
		"--initial-cluster=default=" + peer.URL("http"),
		"--socket-reuse-port",
		"--unsafe-no-fsync",
	}
	return c.runEtcd(ctx)
}

func (c *Cluster) runEtcd(ctx context.Context) (err error) {
	if c.etcd, err = c.start(binaries.Etcd, c.etcdArgs...); err != nil {
		return err
	}
	return c.etcd.Until(ctx, "ready", func(ctx context.Context) error {
		_, err := call.Get(ctx, http.DefaultClient, c.etcdURL+"/readyz")
		return err
	})
}

// RestartEtcd kills etcd, calls meanwhile, and runs it again with its data until kube-apiserver is ready.
func (c *Cluster) RestartEtcd(ctx context.Context, meanwhile func()) error {
	if err := c.etcd.Kill(); err != nil {
		return err
	}
	meanwhile()
	if err := c.runEtcd(ctx); err != nil {
		return err
	}
	return c.untilReady(ctx)
}

// start runs a program of the control plane, which ends with the cluster.
func (c *Cluster) start(program string, args ...string) (*process.Process, error) {
	return c.startAs(program, program, args...)
}

// startAs starts a program under another name, so that it has a log of its own.
func (c *Cluster) startAs(name, program string, args ...string) (*process.Process, error) {
	p, err := process.Start(name, c.Dir, c.programs[program], args...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p, nil
}
