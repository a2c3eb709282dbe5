// Package command runs a measurement as a program.
package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main measures until a signal, and ends the program with exit code 1 after an error. The folder is for logs and other files:
// it is deleted after success, and kept after an error.
func Main(name string, measure func(ctx context.Context, dir string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := inFolder(ctx, name, measure)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func inFolder(ctx context.Context, name string, measure func(ctx context.Context, dir string) error) error {
	dir, err := os.MkdirTemp("", "extender-gateway-"+name+"-")
	if err != nil {
		return err
	}
	if err := measure(ctx, dir); err != nil {
		return fmt.Errorf("%w\nall logs are kept in %s", err, dir)
	}
	return os.RemoveAll(dir)
}
