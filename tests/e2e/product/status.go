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

// SetMode runs `extender-gateway backend NAME ACTION` with the gateway at its admin address and these options, and returns
// everything that it prints, and its exit code.
func SetMode(ctx context.Context, admin, backend, action string, options ...string) (text string, exitCode int, err error) {
	ran, err := run(ctx, append([]string{"backend", backend, action, "--gateway", "http://" + admin}, options...)...)
	return ran.out + ran.said, ran.exitCode, err
}
