// Command pods measures how many pods a second the real kube-scheduler places without an extender, with one
// that does nothing, with plain Go extenders and with the gateway, also behind a plugin.
//
// The contenders take turns, each with a fresh kube-scheduler, since only figures of one run can be
// compared. Run it with tests/ as working directory: go run ./bench/pods --preset quick
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 4 && os.Args[1] == bare {
		exit(serveBare(os.Args[2], os.Args[3]), 1)
	}
	s, err := parse(os.Args[1:])
	exit(err, 2)
	exit(run(ctx, s), 1)
}

// exit ends the program after an error.
func exit(err error, code int) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(code)
	}
}
