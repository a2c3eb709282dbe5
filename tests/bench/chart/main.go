// Command chart turns the benchmark's JSON into the chart and the tables of the documentation:
//
//	go run ./bench/chart --pods pods.json --gateway gateway.json --svg chart.svg --markdown performance.md --notes NOTES.md
//
// They replace the text between the two markers of the Markdown files: one has an overview, the other all tables.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"

	"extender-gateway.io/tests/bench/results"
)

// This program writes the lines between these markers of the Markdown files.
const (
	beginMarker = "<!-- figures: written by make bench-docs, not by hand -->\n"
	endMarker   = "<!-- end of the figures -->\n"
)

func main() {
	pods := flag.String("pods", "", "what bench/pods wrote as JSON (required)")
	gateway := flag.String("gateway", "", "what the benchmark of the gateway alone wrote as JSON")
	var to files
	flag.StringVar(&to.svg, "svg", "", "write the chart to this file")
	flag.StringVar(&to.markdown, "markdown", "", "write the overview into this file, instead of printing it")
	flag.StringVar(&to.notes, "notes", "", "write the tables of each situation into this file, instead of printing them")
	flag.Parse()
	if *pods == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*pods, *gateway, to); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// files are those to write; the zero value of one prints its text, and draws no chart.
type files struct{ svg, markdown, notes string }

func run(podsFile, gatewayFile string, to files) error {
	pods, err := results.Read(podsFile)
	if err != nil {
		return err
	}
	var overview, tables bytes.Buffer
	writeOverview(&overview, pods)
	writeTables(&tables, pods)
	if gatewayFile != "" {
		alone, err := results.ReadAlone(gatewayFile)
		if err != nil {
			return err
		}
		writeAlone(&overview, alone)
		writeAloneObserved(&tables, alone.Observability)
	}
	if to.svg != "" {
		var picture bytes.Buffer
		draw(&picture, pods)
		if err := os.WriteFile(to.svg, picture.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return errors.Join(show(to.markdown, overview.Bytes()), show(to.notes, tables.Bytes()))
}

// show writes text into a file, or prints it if there is none.
func show(file string, text []byte) error {
	if file == "" {
		_, err := os.Stdout.Write(text)
		return err
	}
	return replace(file, text)
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
