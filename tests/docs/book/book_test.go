package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"extender-gateway.io/tests/docs"
)

// TestSources expects the links of the book's sources to lead to files of the book, which mdBook renders or copies.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	if err := makeSources("../../..", dir); err != nil {
		t.Fatal(err)
	}
	pages := 0
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" {
			return err
		}
		pages++
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		page, err := docs.Read(dir, name)
		if err != nil {
			return err
		}
		for _, link := range page.Links {
			if to, _, local := page.Resolve(link); local && !isFile(filepath.Join(dir, to)) {
				t.Errorf("%s:%d: there is no file %s", name, link.Line, link.Target)
			}
		}
		return nil
	})
	if err != nil || pages < 20 {
		t.Errorf("%d pages: %v", pages, err)
	}
}

func isFile(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// TestCheck expects broken links of a book to be found.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	text := `<h1 id="a">A</h1> <a href="b.txt">b</a> <a href="#a">a</a> <a href="#missing">c</a> <a href="missing.html">d</a>`
	for name, text := range map[string]string{"page.html": text, "b.txt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := checkBook(dir)
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "#missing: there is no such anchor") {
		t.Errorf("%v", err)
	}
}
