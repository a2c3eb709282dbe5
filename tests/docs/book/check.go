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
	"strings"
)

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchors   = regexp.MustCompile(`\bid="([^"]*)"`)
)

// checkBook expects every link of every page of the book to lead to a file, and to an element of it if it has an anchor.
func checkBook(dir string) error {
	texts := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		text, err := os.ReadFile(file)
		texts[file] = string(text)
		return err
	})
	if err != nil {
		return err
	}
	ids := map[string]map[string]bool{}
	for file, text := range texts {
		ids[file] = map[string]bool{}
		for _, found := range anchors.FindAllStringSubmatch(text, -1) {
			ids[file][html.UnescapeString(found[1])] = true
		}
	}
	var broken []error
	links := 0
	for file, text := range texts {
		// These pages are for print and for the web server: their links are those of other pages.
		if name := filepath.Base(file); name == "print.html" || name == "404.html" || name == "toc.html" {
			continue
		}
		for _, found := range reference.FindAllStringSubmatch(text, -1) {
			to, err := url.Parse(html.UnescapeString(found[1]))
			if err != nil || to.Scheme != "" {
				continue
			}
			links++
			target := file
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(file), to.Path)
			}
			if _, err := os.Stat(target); err != nil {
				broken = append(broken, fmt.Errorf("%s: there is no %s", file, found[1]))
			} else if known := ids[target]; to.Fragment != "" && known != nil && !known[to.Fragment] {
				broken = append(broken, fmt.Errorf("%s: %s has no such anchor", file, found[1]))
			}
		}
	}
	if len(broken) > 0 {
		return errors.Join(broken...)
	}
	if len(texts) < 20 || links < 100 {
		return fmt.Errorf("%s has %d pages and %d links: it is no book", dir, len(texts), links)
	}
	fmt.Printf("%d pages, all %d links lead somewhere: %s\n", len(texts), links, strings.TrimSuffix(dir, "/")+"/index.html")
	return nil
}
