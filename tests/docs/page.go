package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Page is a Markdown file.
type Page struct {
	// Path is relative to the root of the repository, with slashes.
	Path    string
	Text    string
	Links   []Link
	Anchors map[string]bool
}

// Link is a link or an image: [text](target).
type Link struct {
	Line   int
	Target string
	// start and end are the target's place in the text.
	start, end int
}

// Read reads the page at a path of the repository.
func Read(root, name string) (*Page, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	return Parse(name, string(text)), nil
}

var (
	target  = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	// linked is a link in a heading, of which only the text is part of the anchor.
	linked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Parse finds the links and anchors of a page.
func Parse(name, text string) *Page {
	page := &Page{Path: name, Text: text, Anchors: map[string]bool{}}
	prose := withoutFences(text)
	for _, at := range target.FindAllStringSubmatchIndex(withoutSpans(prose), -1) {
		start, end := at[2], at[3]
		page.Links = append(page.Links, Link{strings.Count(text[:start], "\n") + 1, text[start:end], start, end})
	}
	for _, found := range heading.FindAllStringSubmatch(prose, -1) {
		anchor := Anchor(found[1])
		for i := 0; page.Anchors[anchor]; i++ {
			anchor = Anchor(found[1]) + "-" + strconv.Itoa(i+1)
		}
		page.Anchors[anchor] = true
	}
	return page
}

// Resolve is the path in the repository and the anchor that a link of this page leads to. It is not local if it is a URL.
func (p *Page) Resolve(link Link) (name, anchor string, local bool) {
	if strings.Contains(link.Target, "://") || strings.HasPrefix(link.Target, "mailto:") {
		return "", "", false
	}
	name, anchor, _ = strings.Cut(link.Target, "#")
	if name == "" {
		return p.Path, anchor, true
	}
	return path.Join(path.Dir(p.Path), name), anchor, true
}

// Rewritten is the text with other targets.
func (p *Page) Rewritten(targetOf func(Link) string) string {
	var out strings.Builder
	written := 0
	for _, link := range p.Links {
		out.WriteString(p.Text[written:link.start])
		out.WriteString(targetOf(link))
		written = link.end
	}
	out.WriteString(p.Text[written:])
	return out.String()
}

// Anchor is the anchor of a heading, as code hosts and mdBook make it.
func Anchor(heading string) string {
	heading = linked.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// withoutFences is the text with spaces in place of fenced code.
func withoutFences(text string) string {
	lines := strings.SplitAfter(text, "\n")
	open := ""
	for i, line := range lines {
		trimmed := strings.TrimLeft(line, " ")
		mark := trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`~"))]
		switch {
		case open == "" && len(mark) >= 3:
			open = mark
			lines[i] = blank(line)
		case open != "":
			if strings.HasPrefix(mark, open) {
				open = ""
			}
			lines[i] = blank(line)
		}
	}
	return strings.Join(lines, "")
}

var span = regexp.MustCompile("``[^`]+(?:`[^`]+)*``|`[^`]+`")

// withoutSpans is the text with spaces in place of code in a paragraph.
func withoutSpans(text string) string {
	return span.ReplaceAllStringFunc(text, blank)
}

// blank keeps the length in bytes, and line breaks.
func blank(text string) string {
	out := []byte(text)
	for i, b := range out {
		if b != '\n' {
			out[i] = ' '
		}
	}
	return string(out)
}
