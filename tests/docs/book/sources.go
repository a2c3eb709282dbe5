package main

import (
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"extender-gateway.io/tests/docs"
)

// style is the style sheet that book.toml names.
const style = docs.Folder + "/book.css"

// sources are the files of a book.
type sources struct {
	root, out string
	// pages are rendered; other files are copied once.
	pages  []string
	copied map[string]bool
}

// makeSources writes the pages with the links of the book, the files that they link to, and the style sheet.
func makeSources(root, out string) error {
	pages, err := docs.Book(root)
	if err != nil {
		return err
	}
	book := sources{root, out, pages, map[string]bool{}}
	for _, name := range append(pages, docs.Summary) {
		if err := book.addPage(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return book.copy(style)
}

func (s *sources) addPage(name string) error {
	page, err := docs.Read(s.root, name)
	if err != nil {
		return err
	}
	targets := map[docs.Link]string{}
	for _, link := range page.Links {
		to, anchor, local := page.Resolve(link)
		targets[link] = link.Target
		if !local {
			continue
		}
		if targets[link], err = s.link(name, to, anchor); err != nil {
			return fmt.Errorf("line %d: %w", link.Line, err)
		}
	}
	return s.write(name, []byte(page.Rewritten(func(link docs.Link) string { return targets[link] })))
}

// link is the link from a page to a path of the repository, which it copies if it is no page.
func (s *sources) link(from, to, anchor string) (string, error) {
	link := ""
	if from != to {
		relative, err := filepath.Rel(filepath.Dir(place(from)), place(to))
		if err != nil {
			return "", err
		}
		link = filepath.ToSlash(relative)
	}
	if anchor != "" {
		return link + "#" + anchor, nil
	}
	info, err := os.Stat(filepath.Join(s.root, to))
	switch {
	case err != nil || slices.Contains(s.pages, to):
		return link, err
	case info.IsDir():
		return link + "/" + index, s.copyFolder(to)
	}
	return link, s.copy(to)
}

// index is the file of a folder that lists the others: a book is read without a web server, too.
const index = "index.html"

func (s *sources) copyFolder(folder string) error {
	var list strings.Builder
	at := filepath.Join(s.root, folder)
	err := filepath.WalkDir(at, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(at, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "<li><a href=\"%[1]s\">%[1]s</a></li>\n", html.EscapeString(filepath.ToSlash(name)))
		return s.copy(filepath.Join(folder, name))
	})
	if err != nil {
		return err
	}
	title := html.EscapeString(folder)
	return s.write(filepath.Join(folder, index), fmt.Appendf(nil, "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>%[1]s</title>\n<h1>%[1]s</h1>\n<ul>\n%[2]s</ul>\n", title, &list))
}

func (s *sources) copy(name string) error {
	if s.copied[name] {
		return nil
	}
	s.copied[name] = true
	text, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		return err
	}
	return s.write(name, text)
}

func (s *sources) write(name string, text []byte) error {
	file := filepath.Join(s.out, place(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// place is the place in the book of a path of the repository.
func place(name string) string {
	return strings.TrimPrefix(name, docs.Folder+"/")
}
