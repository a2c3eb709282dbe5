package product

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// Status runs `extender-gateway status` with the gateway at its admin address and these options, and returns its output and exit code.
func Status(ctx context.Context, admin string, options ...string) (text string, exitCode int, err error) {
	binary, err := Binary(Gateway)
	if err != nil {
		return "", 0, err
	}
	command := exec.CommandContext(ctx, binary, append([]string{"status", "--gateway", "http://" + admin}, options...)...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return "", 0, fmt.Errorf("status: %w: %s", err, said.String())
	}
	return string(out), command.ProcessState.ExitCode(), nil
}
