package process

import (
	"fmt"
	"os"
	"strings"
)

// Tail returns the last n lines of a log file, or the reason why there are none.
func Tail(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
