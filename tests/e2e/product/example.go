package product

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/process"
)

// Languages have an SDK for policies.
var Languages = []string{"rust", "python", "go", "typescript", "java"}

// Reference is the example that is the same in all languages.
const Reference = "reference"

// Example finds an example of the SDK for a language.
func Example(language, name string) (string, error) {
	if language == "rust" {
		return Binary(filepath.Join("examples", name))
	}
	module, err := binaries.ModuleDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(module), "backends", language, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: run `make -C backends/%s build` at the top of the repository", err, language)
	}
	return path, nil
}

// StartExample runs an example.
func StartExample(ctx context.Context, dir, language, name string) (*process.Server, error) {
	path, err := Example(language, name)
	if err != nil {
		return nil, err
	}
	program := process.Program{Name: name + "-" + language, Dir: dir, Path: path, Args: []string{"--address", "127.0.0.1:0"}}
	return process.Serve(ctx, program, "listening on")
}
