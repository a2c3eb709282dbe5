package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"testing"
	"time"
)

func TestBytesDependOnNamesModesAndContents(t *testing.T) {
	files := []File{{"b/c/two", 0o644, []byte("2")}, {"a", 0o755, []byte("1")}, {"b/one", 0o644, nil}}
	reversed := slices.Clone(files)
	slices.Reverse(reversed)
	var first, second bytes.Buffer
	for out, files := range map[*bytes.Buffer][]File{&first: files, &second: reversed} {
		if err := WriteGzip(out, time.Unix(1, 0), files); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the order of the files changes the archive")
	}
	names := list(t, &first)
	if expected := []string{"b/ 755", "b/c/ 755", "a 755", "b/c/two 644", "b/one 644"}; !slices.Equal(names, expected) {
		t.Errorf("%q, expected %q", names, expected)
	}
}

// list returns name and mode of every entry, and checks owner and time.
func list(t *testing.T, compressed io.Reader) (names []string) {
	t.Helper()
	uncompressed, err := gzip.NewReader(compressed)
	if err != nil {
		t.Fatal(err)
	}
	if uncompressed.Name != "" || !uncompressed.ModTime.IsZero() {
		t.Errorf("the header of gzip has %q, %s", uncompressed.Name, uncompressed.ModTime)
	}
	for in := tar.NewReader(uncompressed); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return names
		} else if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.ModTime.Unix() != 1 {
			t.Errorf("%+v", header)
		}
		names = append(names, header.Name+" "+octal(header.Mode))
	}
}

func octal(mode int64) string {
	return string([]byte{'0' + byte(mode>>6), '0' + byte(mode>>3&7), '0' + byte(mode&7)})
}
