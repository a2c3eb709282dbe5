// Command languages measures the same policy in all languages that have an SDK, side by side: the time of a call, and the
// calls a second. It prints a table of Markdown.
//
//	go run ./bench/languages [-nodes 500] [-rounds 7] [-calls 200]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/process"
)

// args are those of the reference policy.
const args = `{"zone": "a", "most": 3}`

func main() {
	nodes := flag.Int("nodes", 500, "the nodes of each call")
	rounds := flag.Int("rounds", 7, "how often each language is measured")
	calls := flag.Int("calls", 200, "the calls of a round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, *nodes, *rounds, *calls); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, nodes, rounds, calls int) (err error) {
	speed, err := product.Binary("policy-speed")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "extender-gateway-languages-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	line := []string{"--args", args, "--nodes", strconv.Itoa(nodes), "--rounds", strconv.Itoa(rounds), "--calls", strconv.Itoa(calls)}
	for _, language := range product.Languages {
		var server *process.Server
		if server, err = product.StartExample(ctx, dir, language, product.Reference); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Kill()) }()
		line = append(line, "--endpoint", language+"=http://"+server.Address)
	}
	command := exec.CommandContext(ctx, speed, line...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}
