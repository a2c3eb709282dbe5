package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/ports"
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
	secure, err := c.reserve()
	if err != nil {
		return nil, err
	}
	p, err := c.start(binaries.Scheduler, schedulerFlags(config, secure, options.gates())...)
	if err != nil {
		return nil, err
	}
	return &process.Server{Process: p, Address: secure.Address()}, p.Until(ctx, "ready", func(ctx context.Context) error {
		return getOK(ctx, trusting, secure.URL("https")+"/readyz")
	})
}

func schedulerFlags(config string, secure ports.Port, gates string) []string {
	return []string{
		"--config=" + config,
		"--feature-gates=" + gates,
		"--bind-address=127.0.0.1",
		"--secure-port=" + secure.String(),
		"--permit-port-sharing",
		"--authentication-skip-lookup",
		"--authorization-always-allow-paths=/metrics,/healthz,/readyz",
	}
}

// trusting accepts the self-signed certificate that a scheduler makes at each start.
var trusting = &http.Client{Transport: &http.Transport{
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	DisableKeepAlives: true,
}}
