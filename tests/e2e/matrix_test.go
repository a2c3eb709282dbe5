package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"extender-gateway.io/tests/kube/controlplane"
)

// observations is what the cases saw with each kube-scheduler: a result, by what was observed, mode and release.
type observations struct {
	mu      sync.Mutex
	results []observation
}

// observation is one result.
type observation struct {
	// what names it; result is one line.
	what, result string
	mode         controlplane.NodeMode
	// release is the minor version, such as 1.24.
	release string
}

func (o observation) String() string {
	return fmt.Sprintf("%s, %s: %s: %s", o.release, o.mode, o.what, o.result)
}

// observed keeps a result of this scenario for the table.
func (s *scenario) observed(what, result string) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	s.seen.results = append(s.seen.results, observation{what, result, s.mode, s.release.minor})
}

// rows are the lines of the table: for each result the releases that gave it, by mode.
func (o *observations) rows() (rows []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, first := range o.results {
		same := func(other observation) bool { return other.what == first.what && other.result == first.result }
		if slices.IndexFunc(o.results, same) < i {
			continue
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", first.what, first.result,
			o.releases(first, controlplane.Names), o.releases(first, controlplane.FullObjects)))
	}
	// Stable, so that the results of one observation stand together in the order of the releases.
	slices.SortStableFunc(rows, func(a, b string) int { return strings.Compare(cell(a), cell(b)) })
	return rows
}

// cell is the first cell of a row.
func cell(row string) string {
	cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
	return cell
}

// releases are those with the same result in this mode.
func (o *observations) releases(as observation, mode controlplane.NodeMode) string {
	var list []string
	for _, other := range o.results {
		if other.what == as.what && other.result == as.result && other.mode == mode {
			list = append(list, other.release)
		}
	}
	return strings.Join(list, ", ")
}

// table is the text of the document between its markers.
func (o *observations) table() []byte {
	var text bytes.Buffer
	text.WriteString("\n| observation | result | `nodeCacheCapable: true` | `false` |\n|---|---|---|---|\n")
	for _, row := range o.rows() {
		text.WriteString(row)
	}
	text.WriteString("\n")
	return text.Bytes()
}

const (
	compatibility = "../../docs/compatibility.md"
	// recordEnv makes the test write the table into the document instead of comparing them.
	recordEnv   = "EXTENDER_MATRIX_RECORD"
	beginMarker = "<!-- observations: written by make matrix-record, not by hand -->\n"
	endMarker   = "<!-- end of the observations -->\n"
)

// compareWithDocument fails if the document has other results for the releases that were tested.
func (o *observations) compareWithDocument(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	document, err := documentOf(text)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(recordEnv) != "" {
		if err := os.WriteFile(compatibility, document.with(o.table()), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	for _, difference := range document.differences(o.results) {
		t.Error(difference)
	}
}

// document is docs/compatibility.md.
type document struct{ before, table, after []byte }

func documentOf(text []byte) (d document, err error) {
	before, rest, begins := bytes.Cut(text, []byte(beginMarker))
	table, after, ends := bytes.Cut(rest, []byte(endMarker))
	if !begins || !ends {
		return d, errors.New(compatibility + " lacks the lines that enclose the table: " + beginMarker + endMarker)
	}
	return document{before, table, after}, nil
}

func (d document) with(table []byte) []byte {
	return bytes.Join([][]byte{d.before, []byte(beginMarker), table, []byte(endMarker), d.after}, nil)
}

// differences are the results that the document does not have, and those that it has and that were not observed.
func (d document) differences(results []observation) (list []string) {
	written := d.results()
	for _, o := range results {
		if !slices.Contains(written, o) {
			list = append(list, fmt.Sprintf("docs/compatibility.md lacks a result of %v", o))
		}
	}
	tested := func(w observation) bool {
		return slices.ContainsFunc(results, func(o observation) bool { return o.release == w.release })
	}
	for _, w := range written {
		if tested(w) && !slices.Contains(results, w) {
			list = append(list, fmt.Sprintf("docs/compatibility.md has a result that was not observed of %v", w))
		}
	}
	return list
}

// results reads the table.
func (d document) results() (list []observation) {
	for line := range strings.Lines(string(d.table)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 {
			continue
		}
		for column, mode := range bothModes {
			for _, release := range strings.FieldsFunc(cells[2+column], func(c rune) bool { return c == ',' || c == ' ' }) {
				list = append(list, observation{strings.TrimSpace(cells[0]), cells[1], mode, release})
			}
		}
	}
	return list
}
