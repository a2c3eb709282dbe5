package product

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"extender-gateway.io/tests/kube/binaries"
)

// BinDirEnv names the folder of the product's binaries.
const BinDirEnv = "EXTENDER_GATEWAY_BIN_DIR"

// Names of the binaries.
const (
	Gateway      = "extender-gateway"
	Policies     = "extender-policies"
	EchoExtender = "echo-extender"
)

// Commands of Policies.
const (
	LabelRules        = "label-rules"
	LabelBinder       = "label-binder"
	NodeResources     = "node-resources"
	NodeAffinity      = "node-affinity"
	Spread            = "spread"
	HTTPExtender      = "http-extender"
	ReservationPolicy = "reservation"
)

// Binary finds a binary in cargo's output folder, a release build first, or in the folder of BinDirEnv.
func Binary(name string) (string, error) {
	dirs, err := binDirs()
	if err != nil {
		return "", err
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s is not built (looked in %s): run `cargo build --release --bin %s` at the top of the repository, or name the folder that has it in %s",
		name, strings.Join(dirs, " and "), name, BinDirEnv)
}

func binDirs() ([]string, error) {
	if dir := os.Getenv(BinDirEnv); dir != "" {
		absolute, err := filepath.Abs(dir)
		return []string{absolute}, err
	}
	module, err := binaries.ModuleDir()
	if err != nil {
		return nil, err
	}
	target := filepath.Join(filepath.Dir(module), "target")
	return []string{filepath.Join(target, "release"), filepath.Join(target, "debug")}, nil
}
