package collector

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text is the trace as a tree for people: a line for each span with its duration and service, below it its status,
// the attributes with these keys (all, without keys), its events and its links.
func (t Trace) Text(keys ...string) string {
	tree := treeText{trace: t, keys: keys}
	for _, root := range t.Roots() {
		tree.span(root, "", "")
	}
	return "trace " + t.ID() + "\n" + tree.aligned()
}

// shownTraces is how many traces a failed wait shows, the latest.
const shownTraces = 20

// String shows everything, for a test that failed.
func (t Telemetry) String() string {
	var text strings.Builder
	traces := t.Traces()
	if more := len(traces) - shownTraces; more > 0 {
		fmt.Fprintf(&text, "(%d earlier traces)\n", more)
		traces = traces[more:]
	}
	for _, trace := range traces {
		text.WriteString(trace.Text())
	}
	fmt.Fprintf(&text, "%d spans\n", len(t.Spans))
	return text.String()
}

// treeText collects the lines of a tree.
type treeText struct {
	trace Trace
	keys  []string
	lines []treeLine
}

// treeLine is a span's own line, which has columns, or one below it, which has none.
type treeLine struct{ text, columns string }

// span writes a span and all below it: its own line after head, the others after below.
func (t *treeText) span(s Span, head, below string) {
	columns := fmt.Sprintf("%8.2f ms  %s", float64(s.Duration().Microseconds())/1e3, s.Service())
	t.lines = append(t.lines, treeLine{head + s.Name, columns})
	children := t.trace.Children(s)
	indent := below + "     "
	if len(children) > 0 {
		indent = below + "│    "
	}
	for _, line := range t.about(s, textWidth-utf8.RuneCountInString(indent)) {
		t.lines = append(t.lines, treeLine{text: indent + line})
	}
	for i, child := range children {
		if i == len(children)-1 {
			t.span(child, below+"└─ ", below+"   ")
		} else {
			t.span(child, below+"├─ ", below+"│  ")
		}
	}
}

// about are the lines below a span.
func (t *treeText) about(s Span, width int) (lines []string) {
	if s.Status.Code == Error {
		lines = append(lines, strings.TrimSuffix("error: "+s.Status.Message, ": "))
	}
	lines = append(lines, wrapped(s.Attributes.only(t.keys), width)...)
	for _, event := range s.Events {
		lines = append(lines, wrapped(append([]string{"event " + event.Name}, event.Attributes.only(t.keys)...), width)...)
	}
	for _, link := range s.Links {
		words := append([]string{"link to " + link.SpanID, "of " + link.TraceID}, link.Attributes.only(nil)...)
		lines = append(lines, wrapped(words, width)...)
	}
	return lines
}

// textWidth is the maximum width of the lines below a span, unless one word is wider.
const textWidth = 110

// wrapped puts words into lines.
func wrapped(words []string, width int) (lines []string) {
	for _, word := range words {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// aligned is all lines, the columns of spans below each other.
func (t *treeText) aligned() string {
	width := 0
	for _, line := range t.lines {
		if line.columns != "" {
			width = max(width, utf8.RuneCountInString(line.text))
		}
	}
	var text strings.Builder
	for _, line := range t.lines {
		if line.columns != "" {
			line.text += strings.Repeat(" ", width-utf8.RuneCountInString(line.text)+2)
		}
		text.WriteString(line.text + line.columns + "\n")
	}
	return text.String()
}
