// Command chart turns the benchmark's JSON into the chart and the tables of the documentation:
//
//	go run ./bench/chart --pods pods.json --gateway gateway.json --svg chart.svg --markdown performance.md
//
// The tables replace the text between the two markers of the Markdown file.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"

	"extender-gateway.io/tests/bench/results"
)

// This program writes the lines between these markers of the Markdown file.
const (
	beginMarker = "<!-- figures: written by make bench-docs, not by hand -->\n"
	endMarker   = "<!-- end of the figures -->\n"
)

func main() {
	pods := flag.String("pods", "", "what bench/pods wrote as JSON (required)")
	gateway := flag.String("gateway", "", "what the benchmark of the gateway alone wrote as JSON")
	svg := flag.String("svg", "", "write the chart to this file")
	markdown := flag.String("markdown", "", "write the tables into this file, instead of printing them")
	flag.Parse()
	if *pods == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*pods, *gateway, *svg, *markdown); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(podsFile, gatewayFile, svgFile, markdownFile string) error {
	pods, err := results.Read(podsFile)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	writeTables(&text, pods)
	if gatewayFile != "" {
		alone, err := results.ReadAlone(gatewayFile)
		if err != nil {
			return err
		}
		writeAlone(&text, alone)
	}
	if svgFile != "" {
		var picture bytes.Buffer
		draw(&picture, pods)
		if err := os.WriteFile(svgFile, picture.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if markdownFile == "" {
		_, err := os.Stdout.Write(text.Bytes())
		return err
	}
	return replace(markdownFile, text.Bytes())
}

// replace puts text between the markers of a file.
func replace(file string, text []byte) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fresh, err := between(old, text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, fresh, 0o644)
}

func between(old, text []byte) ([]byte, error) {
	before, rest, begins := bytes.Cut(old, []byte(beginMarker))
	_, after, ends := bytes.Cut(rest, []byte(endMarker))
	if !begins || !ends {
		return nil, errors.New("the lines that enclose the figures are missing: " + beginMarker + endMarker)
	}
	return bytes.Join([][]byte{before, []byte(beginMarker), text, []byte(endMarker), after}, nil), nil
}
