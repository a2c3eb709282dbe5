package container

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"golang.org/x/sys/unix"
)

// layoutVariable names the folder of the image layout, if it is not target/image.
const layoutVariable = "EXTENDER_GATEWAY_IMAGE"

// user is the user and the group of the image.
const user = 65532

func built(t *testing.T) v1.Image {
	t.Helper()
	path := os.Getenv(layoutVariable)
	if path == "" {
		path = "../../../target/image"
	}
	return imageIn(t, path)
}

func imageIn(t *testing.T, path string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		t.Fatalf("no image there; `make image` and `make scheduler-image` write them: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// root is the root file system of a container.
type root struct {
	path string
}

// unpack makes a root file system of the image, with these files besides, such as a container engine mounts, and makes
// it read-only.
func unpack(t *testing.T, image v1.Image, mounted map[string]string) root {
	t.Helper()
	r := root{t.TempDir()}
	content := mutate.Extract(image)
	defer content.Close()
	for in := tar.NewReader(content); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		r.extract(t, header, in)
	}
	for name, content := range mounted {
		r.write(t, name, strings.NewReader(content), 0o644)
	}
	r.mount(t)
	return r
}

func (r root) extract(t *testing.T, header *tar.Header, content io.Reader) {
	t.Helper()
	switch header.Typeflag {
	case tar.TypeDir:
		// Made with the files in it.
	case tar.TypeReg:
		r.write(t, header.Name, content, os.FileMode(header.Mode))
	default:
		t.Fatalf("%s is neither a file nor a directory", header.Name)
	}
}

func (r root) write(t *testing.T, name string, content io.Reader, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(r.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, content); err != nil {
		t.Fatal(err)
	}
}

// mount makes the folder a read-only file system with /proc in it.
func (r root) mount(t *testing.T) {
	t.Helper()
	proc := filepath.Join(r.path, "proc")
	if err := errors.Join(os.Chmod(r.path, 0o755), os.Mkdir(proc, 0o555)); err != nil {
		t.Fatal(err)
	}
	const readOnly = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	err := errors.Join(
		unix.Mount(r.path, r.path, "", unix.MS_BIND, ""),
		unix.Mount("/proc", proc, "", unix.MS_BIND|unix.MS_REC, ""),
		unix.Mount("", r.path, "", readOnly, ""),
	)
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(proc, unix.MNT_DETACH), unix.Unmount(r.path, unix.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// command is a program of the image in this root file system, with the environment of the image and no other.
func (r root) command(program string, arguments ...string) *exec.Cmd {
	attributes := &syscall.SysProcAttr{Chroot: r.path, Pdeathsig: syscall.SIGKILL}
	if byRoot() {
		attributes.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	return &exec.Cmd{
		Path: program, Args: append([]string{program}, arguments...), Dir: "/",
		Env: []string{"PATH=/usr/bin"}, SysProcAttr: attributes, Stderr: os.Stderr,
	}
}

// process is a program that runs.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func (r root) start(t *testing.T, program string, arguments ...string) *process {
	t.Helper()
	command := r.command(program, arguments...)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	return &process{command, bufio.NewScanner(out)}
}

// after returns the rest of the next line with this prefix.
func (p *process) after(t *testing.T, prefix string) string {
	t.Helper()
	for p.lines.Scan() {
		if rest, found := strings.CutPrefix(p.lines.Text(), prefix); found {
			return rest
		}
	}
	t.Fatalf("%s ended without a line %q (%v)", p.Path, prefix, p.lines.Err())
	return ""
}

// stop sends SIGTERM and waits for the end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("%s after SIGTERM: %v", p.Path, err)
	}
}
