// Package archive writes tar archives whose bytes depend on nothing but the names, modes and contents of their files.
package archive

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a regular file of an archive.
type File struct {
	// Name is its path in the archive, with slashes.
	Name string
	// Mode has the permission bits.
	Mode    int64
	Content []byte
}

// Read returns the file at a path of this machine, under another name.
func Read(from, name string, mode int64) (File, error) {
	content, err := os.ReadFile(from)
	return File{Name: name, Mode: mode, Content: content}, err
}

// Write writes the files, sorted by name, after the directories that they need. Everything belongs to root and was
// modified at this time.
func Write(w io.Writer, modified time.Time, files []File) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	out := tar.NewWriter(w)
	for _, directory := range directories(files) {
		header := tar.Header{Typeflag: tar.TypeDir, Name: directory + "/", Mode: 0o755, ModTime: modified}
		if err := out.WriteHeader(&header); err != nil {
			return err
		}
	}
	for _, file := range files {
		size := int64(len(file.Content))
		header := tar.Header{Typeflag: tar.TypeReg, Name: file.Name, Mode: file.Mode, Size: size, ModTime: modified}
		if err := out.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := out.Write(file.Content); err != nil {
			return err
		}
	}
	return out.Close()
}

// WriteGzip writes as Write does, compressed. The header of gzip has neither a name nor a time.
func WriteGzip(w io.Writer, modified time.Time, files []File) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := Write(compressed, modified, files); err != nil {
		return err
	}
	return compressed.Close()
}

// directories are those above the files, parents first.
func directories(files []File) []string {
	var found []string
	for _, file := range files {
		for above := path.Dir(file.Name); above != "."; above = path.Dir(above) {
			found = append(found, above)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
