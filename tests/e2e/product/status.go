package product

import "context"

// Status runs `extender-gateway status` with the gateway at its admin address and these options, and returns everything
// that it prints, and its exit code.
func Status(ctx context.Context, admin string, options ...string) (text string, exitCode int, err error) {
	return StatusOf(ctx, "http://"+admin, options...)
}

// StatusOf is Status with the URL of the admin address.
func StatusOf(ctx context.Context, url string, options ...string) (text string, exitCode int, err error) {
	ran, err := run(ctx, append([]string{"status", "--gateway", url}, options...)...)
	return ran.out + ran.said, ran.exitCode, err
}

// StatusInPods is Status for gateways that are pods of a namespace, through ports that kube-apiserver forwards.
func StatusInPods(ctx context.Context, kubeconfig, namespace, adminPort string, options ...string) (text string, exitCode int, err error) {
	ran, err := run(ctx, append([]string{"status", "--kubeconfig", kubeconfig, "--gateway-namespace", namespace, "--admin-port", adminPort}, options...)...)
	return ran.out + ran.said, ran.exitCode, err
}

// SetMode runs `extender-gateway backend NAME ACTION` with the gateway at its admin address and these options, and returns
// everything that it prints, and its exit code.
func SetMode(ctx context.Context, admin, backend, action string, options ...string) (text string, exitCode int, err error) {
	ran, err := run(ctx, append([]string{"backend", backend, action, "--gateway", "http://" + admin}, options...)...)
	return ran.out + ran.said, ran.exitCode, err
}
