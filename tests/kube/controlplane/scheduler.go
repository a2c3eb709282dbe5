package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/call"
	"extender-gateway.io/tests/kube/process"
)

// StartScheduler runs a kube-scheduler until it is ready, which includes that it has seen all existing nodes and
// pods. It serves pods of the default scheduler's name, so run one at a time; Kill it like a crash, and pods that
// it was about to bind stay pending. Its address serves /metrics over HTTPS with a self-signed certificate.
func (c *Cluster) StartScheduler(ctx context.Context, options SchedulerOptions) (*process.Server, error) {
	config := filepath.Join(c.Dir, "kube-scheduler.yaml")
	if err := options.writeTo(config, c.Kubeconfig); err != nil {
		return nil, fmt.Errorf("write %s: %w", config, err)
	}
	program := options.program()
	if options.PreviousPlugin != "" {
		c.programs[program] = options.PreviousPlugin
	}
	if err := c.buildScheduler(ctx, program); err != nil {
		return nil, err
	}
	return c.runScheduler(ctx, program, program, options.Release.readyPath(), "--config="+config, "--feature-gates="+options.gates(),
		"--authentication-skip-lookup", "--authorization-always-allow-paths=/metrics,/healthz,/readyz")
}

// RunScheduler runs the newest kube-scheduler, or that with the plugin, with these flags, and a port, until it is ready, as
// StartScheduler does. Its log has the name.
func (c *Cluster) RunScheduler(ctx context.Context, name, program string, flags ...string) (*process.Server, error) {
	if err := c.buildScheduler(ctx, program); err != nil {
		return nil, err
	}
	return c.runScheduler(ctx, name, program, Release{}.readyPath(), flags...)
}

func (c *Cluster) runScheduler(ctx context.Context, name, program, readyPath string, flags ...string) (*process.Server, error) {
	secure, err := c.reserve()
	if err != nil {
		return nil, err
	}
	own := []string{"--bind-address=127.0.0.1", "--secure-port=" + secure.String(), "--permit-port-sharing"}
	p, err := c.startAs(name, program, replaced(flags, own)...)
	if err != nil {
		return nil, err
	}
	return &process.Server{Process: p, Address: secure.Address()}, p.Until(ctx, "ready", func(ctx context.Context) error {
		_, err := call.Get(ctx, trusting, secure.URL("https")+readyPath)
		return err
	})
}

// SchedulerMetrics is the page of metrics of a kube-scheduler at its address.
func SchedulerMetrics(ctx context.Context, address string) (page string, err error) {
	return call.Get(ctx, trusting, "https://"+address+"/metrics")
}

// buildScheduler makes a kube-scheduler available.
func (c *Cluster) buildScheduler(ctx context.Context, program string) error {
	if _, built := c.programs[program]; built {
		return nil
	}
	paths, err := binaries.Build(ctx, program)
	if err != nil {
		return err
	}
	c.programs[program] = paths[program]
	return nil
}

// trusting accepts the self-signed certificate that a scheduler makes at each start.
var trusting = &http.Client{Transport: &http.Transport{
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	DisableKeepAlives: true,
}}
