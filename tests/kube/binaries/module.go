package binaries

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// ModuleDir is the folder of this module's go.mod, as seen from the working directory.
func ModuleDir() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("not inside the Go module of tests/: run this with tests/ or a folder below it as working directory")
	}
	return filepath.Dir(file), nil
}
