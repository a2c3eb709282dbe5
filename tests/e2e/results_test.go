package e2e

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// results is printed at the end of the package, for people.
var results record

// record collects the results in their order.
type record struct {
	mu    sync.Mutex
	lines []string
	notes []string
	bad   int
}

// add records the result of a scenario when its test ends.
func (r *record) add(t *testing.T, sentence string) {
	begin := time.Now()
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		verdict := "PASS"
		if t.Failed() {
			verdict = "FAIL"
			r.bad++
		}
		r.lines = append(r.lines, fmt.Sprintf("%s  %s (%.1f s)", verdict, sentence, time.Since(begin).Seconds()))
	})
}

// note keeps a measurement for the end.
func (r *record) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

func (r *record) print(w io.Writer) {
	fmt.Fprintf(w, "\nShown against kube-scheduler: %d scenarios, %d failed\n", len(r.lines), r.bad)
	for _, line := range r.lines {
		fmt.Fprintln(w, " ", line)
	}
	for _, note := range r.notes {
		fmt.Fprint(w, "\n", note)
	}
	fmt.Fprintln(w)
}
