package main

import (
	"fmt"
	"html"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"extender-gateway.io/tests/docs"
)

// makeSources writes the pages with the links of the book, the files that they link to, and docs/book.css.
func makeSources(root, out string) error {
	pages, err := docs.Book(root)
	if err != nil {
		return err
	}
	linked := map[string]bool{docs.Folder + "/book.css": true}
	for _, name := range append(pages, docs.Summary) {
		page, err := docs.Read(root, name)
		if err != nil {
			return err
		}
		text := page.Rewritten(func(link docs.Link) string {
			to, anchor, local := page.Resolve(link)
			if !local {
				return link.Target
			}
			if !slices.Contains(pages, to) {
				linked[to] = true
			}
			return inBook(name, to, anchor)
		})
		if err := write(out, name, []byte(text)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(linked)) {
		if err := copyTo(out, root, name); err != nil {
			return err
		}
	}
	return nil
}

// place is the path in the book of a path of the repository.
func place(name string) string {
	return strings.TrimPrefix(name, docs.Folder+"/")
}

// inBook is the link from a page to another in the book.
func inBook(from, to, anchor string) string {
	link := ""
	if from != to {
		relative, err := filepath.Rel(filepath.Dir(place(from)), place(to))
		if err != nil {
			panic(err) // Both are relative paths.
		}
		link = filepath.ToSlash(relative)
	}
	if path.Ext(to) == "" && anchor == "" && path.Base(to) != "LICENSE" {
		link += "/index.html"
	}
	if anchor != "" {
		link += "#" + anchor
	}
	return link
}

// copyTo copies a file, or the files of a folder with a list of them.
func copyTo(out, root, name string) error {
	var list strings.Builder
	at := filepath.Join(root, name)
	err := filepath.WalkDir(at, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		inFolder, err := filepath.Rel(at, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "<li><a href=\"%[1]s\">%[1]s</a></li>\n", html.EscapeString(inFolder))
		return write(out, filepath.Join(name, inFolder), text)
	})
	if info, statErr := os.Stat(at); err == nil && statErr == nil && info.IsDir() {
		title := html.EscapeString(name)
		err = write(out, name+"/index.html", []byte("<!DOCTYPE html><meta charset=\"utf-8\"><title>"+title+"</title><h1>"+title+"</h1>\n<ul>\n"+list.String()+"</ul>\n"))
	}
	return err
}

func write(out, name string, text []byte) error {
	file := filepath.Join(out, filepath.FromSlash(place(name)))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
