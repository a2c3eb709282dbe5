package binaries

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock makes dir, hides it from git, and holds it until unlock is called or this program ends.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o644); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
