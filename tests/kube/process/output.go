package process

import (
	"bytes"
	"io"
	"sync"
)

// output passes what a child writes to its log and remembers the lines, so that one can be waited for.
type output struct {
	log io.Writer

	mu      sync.Mutex
	partial []byte
	lines   []string
	// changed is closed and replaced when a line is added.
	changed chan struct{}
}

// rememberedLines bounds the memory for a child that prints without end; expected lines come first.
const rememberedLines = 100

func newOutput(log io.Writer) *output {
	return &output{log: log, changed: make(chan struct{})}
}

// Write implements io.Writer for exec.Cmd.
func (o *output) Write(p []byte) (int, error) {
	o.remember(p)
	return o.log.Write(p)
}

func (o *output) remember(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) == rememberedLines {
		return
	}
	o.partial = append(o.partial, p...)
	for len(o.lines) < rememberedLines {
		line, rest, complete := bytes.Cut(o.partial, []byte("\n"))
		if !complete {
			return
		}
		o.partial = rest
		o.lines = append(o.lines, string(line))
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

// seen returns the lines so far and a channel that is closed when there are more.
func (o *output) seen() ([]string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines, o.changed
}
