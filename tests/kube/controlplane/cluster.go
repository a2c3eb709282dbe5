package controlplane

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

// Cluster is a running etcd and kube-apiserver; schedulers are started on it as tests need them.
type Cluster struct {
	// Dir holds the logs and all other files.
	Dir string
	// Kubeconfig is a file that allows any client everything.
	Kubeconfig string
	// REST and Client are the same as Kubeconfig for clients in this program, without a rate limit.
	REST   *rest.Config
	Client kubernetes.Interface

	programs map[string]string
	// etcd is the running one, etcdURL its address, and etcdArgs starts it again.
	etcd     *process.Process
	etcdURL  string
	etcdArgs []string
	// apiServer is the running kube-apiserver, apiServerFlags are those of the caller, and apiServerArgs starts it
	// again.
	apiServer      *process.Process
	apiServerFlags []string
	apiServerArgs  []string
	ports          []ports.Port

	// mu guards processes, which may be read while a scheduler starts.
	mu        sync.Mutex
	processes []*process.Process
}

// Start builds what is missing and runs etcd and kube-apiserver until they are ready. The caller calls Stop, even
// if Start fails.
func Start(ctx context.Context, dir string) (*Cluster, error) {
	return StartWith(ctx, dir)
}

// StartWith is Start with flags of kube-apiserver, which replace the usual ones of the same name.
func StartWith(ctx context.Context, dir string, apiServerFlags ...string) (*Cluster, error) {
	c := &Cluster{Dir: dir, apiServerFlags: apiServerFlags}
	var err error
	c.programs, err = binaries.Build(ctx, binaries.Etcd, binaries.APIServer, binaries.Scheduler)
	if err != nil {
		return c, err
	}
	if err := c.startEtcd(ctx); err != nil {
		return c, err
	}
	return c, c.startAPIServer(ctx)
}

// Stop ends all processes at once, clients before servers; their data is deleted with Dir.
func (c *Cluster) Stop() error {
	var errs []error
	for _, p := range slices.Backward(c.started()) {
		errs = append(errs, p.Kill())
	}
	for _, p := range c.ports {
		p.Release()
	}
	return errors.Join(errs...)
}

// Running are the processes of the control plane that have not ended, one of each name.
func (c *Cluster) Running() []*process.Process {
	return slices.DeleteFunc(c.started(), func(p *process.Process) bool {
		select {
		case <-p.Exited():
			return true
		default:
			return false
		}
	})
}

func (c *Cluster) started() []*process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.processes)
}

// reserve takes a port that belongs to the cluster until it stops.
func (c *Cluster) reserve() (ports.Port, error) {
	p, err := ports.Reserve(ports.ReusePort)
	if err == nil {
		c.ports = append(c.ports, p)
	}
	return p, err
}

// UnusedAddress is a host:port without a listener as long as the cluster runs.
func (c *Cluster) UnusedAddress() (string, error) {
	p, err := c.reserve()
	return "127.0.0.1:" + p.String(), err
}
