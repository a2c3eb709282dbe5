package product

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// output is what a command of the gateway's binary printed, and how it ended.
type output struct {
	// out is the result, said the messages.
	out, said string
	exitCode  int
}

// run runs a command of the gateway's binary. An exit code other than 0 is no error.
func run(ctx context.Context, args ...string) (output, error) {
	binary, err := Binary(Gateway)
	if err != nil {
		return output{}, err
	}
	command := exec.CommandContext(ctx, binary, args...)
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return output{}, fmt.Errorf("%s: %w: %s", args[0], err, said.String())
	}
	return output{out.String(), said.String(), command.ProcessState.ExitCode()}, nil
}
