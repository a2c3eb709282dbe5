package main

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// rendered is a page of the book.
type rendered struct {
	links []string
	ids   map[string]bool
}

// repeated are mdBook's pages with the text or the contents of all others, whose links are not for their place.
var repeated = []string{"print.html", "404.html", "toc.html"}

// checkBook expects every link of every page of the book to lead to a file, and to an element of it if it has an anchor.
func checkBook(dir string) error {
	pages, err := readBook(dir)
	if err != nil {
		return err
	}
	var broken []error
	links := 0
	for file, page := range pages {
		for _, link := range page.links {
			links++
			if err := follow(pages, file, link); err != nil {
				broken = append(broken, fmt.Errorf("%s: %s: %w", file, link, err))
			}
		}
	}
	if len(broken) > 0 {
		return errors.Join(broken...)
	}
	if len(pages) < 20 || links < 100 {
		return fmt.Errorf("%s has %d pages and %d links: it is no book", dir, len(pages), links)
	}
	fmt.Printf("%d pages, all %d links lead somewhere: %s\n", len(pages), links, filepath.Join(dir, index))
	return nil
}

// follow expects a link of a file to lead somewhere.
func follow(pages map[string]rendered, file, link string) error {
	to, err := url.Parse(link)
	if err != nil || to.Scheme != "" {
		return err
	}
	target := file
	if to.Path != "" {
		target = filepath.Join(filepath.Dir(file), to.Path)
	}
	if _, err := os.Stat(target); err != nil {
		return err
	}
	if page, known := pages[target]; known && to.Fragment != "" && !page.ids[to.Fragment] {
		return errors.New("there is no such anchor")
	}
	return nil
}

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchor    = regexp.MustCompile(`\bid="([^"]*)"`)
)

func readBook(dir string) (map[string]rendered, error) {
	pages := map[string]rendered{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" || slices.Contains(repeated, entry.Name()) {
			return err
		}
		text, err := os.ReadFile(file)
		page := rendered{ids: map[string]bool{}}
		for _, found := range reference.FindAllSubmatch(text, -1) {
			page.links = append(page.links, html.UnescapeString(string(found[1])))
		}
		for _, found := range anchor.FindAllSubmatch(text, -1) {
			page.ids[html.UnescapeString(string(found[1]))] = true
		}
		pages[file] = page
		return err
	})
	return pages, err
}
