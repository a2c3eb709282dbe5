package policy

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"
)

// programRevision is the revision of a policy that sets none: another build has another one, also with the same
// version. Replicas of one build have the same one. It is the version alone if the program cannot be read.
func programRevision(version string) string {
	digest := programDigest()
	return cut(version, maxRevisionBytes-len(digest)) + digest
}

var programDigest = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return digestOf(path)
})

// digestOf is empty if the file cannot be read.
func digestOf(path string) string {
	digest := sha256.New()
	program, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = program.Close() }()
	if _, err := io.Copy(digest, program); err != nil {
		return ""
	}
	return fmt.Sprintf("+%x", digest.Sum(nil)[:6])
}
