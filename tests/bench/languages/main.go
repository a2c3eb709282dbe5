// Command languages measures the same policy in all languages that have an SDK, side by side: the time of a call, and the
// calls a second. It prints a table of Markdown.
//
//	go run ./bench/languages [-nodes 500] [-rounds 7] [-calls 200] [-processes 2]
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"extender-gateway.io/tests/bench/command"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/process"
)

// args are those of the reference policy.
const args = `{"zone": "a", "most": 3}`

func main() {
	nodes := flag.Int("nodes", 500, "the nodes of each call")
	rounds := flag.Int("rounds", 7, "how often each language is measured")
	calls := flag.Int("calls", 200, "the calls of a round")
	processes := flag.Int("processes", 2, "the processes of each language that share the calls of the last column")
	flag.Parse()
	command.Main("languages", func(ctx context.Context, dir string) error {
		return measure(ctx, dir, *nodes, *rounds, *calls, *processes)
	})
}

func measure(ctx context.Context, dir string, nodes, rounds, calls, processes int) (err error) {
	speed, err := product.Binary("policy-speed")
	if err != nil {
		return err
	}
	line := []string{"--args", args, "--nodes", strconv.Itoa(nodes), "--rounds", strconv.Itoa(rounds), "--calls", strconv.Itoa(calls)}
	for _, language := range product.Languages {
		var urls []string
		for number := range max(processes, 1) {
			var server *process.Server
			if server, err = start(ctx, filepath.Join(dir, strconv.Itoa(number)), language); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, server.Kill()) }()
			urls = append(urls, "http://"+server.Address)
		}
		line = append(line, "--endpoint", language+"="+strings.Join(urls, ","))
	}
	command := exec.CommandContext(ctx, speed, line...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return command.Run()
}

// start runs the reference policy; the folder has its log.
func start(ctx context.Context, dir, language string) (*process.Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return product.StartExample(ctx, dir, language, product.Reference)
}
