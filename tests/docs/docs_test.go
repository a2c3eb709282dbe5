package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"extender-gateway.io/tests/docs"
)

const root = "../.."

// TestLinks expects every relative link in a Markdown file of the repository to lead to a file, and to a heading of it if
// it names one.
func TestLinks(t *testing.T) {
	pages := read(t)
	if len(pages) < 20 {
		t.Fatalf("only %d pages", len(pages))
	}
	for _, page := range pages {
		for _, link := range page.Links {
			name, anchor, local := page.Resolve(link)
			if !local {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil || strings.HasPrefix(name, "../") {
				t.Errorf("%s:%d: there is no %s", page.Path, link.Line, link.Target)
			} else if to := pages[name]; anchor != "" && to != nil && !to.Anchors[anchor] {
				t.Errorf("%s:%d: %s has no heading for #%s", page.Path, link.Line, name, anchor)
			}
		}
	}
}

// TestSummary expects the book to have every page of docs/ once, and every page that its pages link to.
func TestSummary(t *testing.T) {
	book, err := docs.Book(root)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, name := range book {
		if listed[name] {
			t.Errorf("%s has %s twice", docs.Summary, name)
		}
		listed[name] = true
	}
	pages := read(t)
	for name := range pages {
		if strings.HasPrefix(name, docs.Folder+"/") && name != docs.Summary && !listed[name] {
			t.Errorf("%s does not have %s", docs.Summary, name)
		}
	}
	for _, name := range book {
		if pages[name] == nil {
			t.Fatalf("%s has %s, which is no page", docs.Summary, name)
		}
		for _, link := range pages[name].Links {
			if to, _, local := pages[name].Resolve(link); local && pages[to] != nil && !listed[to] {
				t.Errorf("%s:%d: %s does not have %s, so the link does not work in the book", name, link.Line, docs.Summary, to)
			}
		}
	}
}

var (
	namedPath   = regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]*)+|[\\w.-]+\\.(?:html|json|lock|md|proto|rs|sh|toml|yaml))`")
	makeCommand = regexp.MustCompile(`(?m)(?:^|` + "`" + `)make\s+(?:-C\s+(\S+)\s+)?([a-z0-9-]+)`)
	placeholder = regexp.MustCompile(`\b(NAME|LANGUAGE|TARGET)\b`)
)

// TestNames expects every path and every make command in the documents for contributors to exist. A path begins beside the
// path before it, at the root, or at the sources of a crate of the gateway (`door/turns.rs`); NAME in it stands for anything.
func TestNames(t *testing.T) {
	for _, name := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		page, err := docs.Read(root, name)
		if err != nil {
			t.Fatal(err)
		}
		bases := []string{"", "", "gateway"}
		for _, found := range namedPath.FindAllStringSubmatch(page.Text, -1) {
			at := slices.IndexFunc(bases, func(base string) bool {
				name := placeholder.ReplaceAllString(found[1], "*")
				if crate, file, isFile := strings.Cut(name, "/"); base == "gateway" && isFile {
					name = path.Join(crate, "src", file)
				}
				matches, _ := filepath.Glob(filepath.Join(root, base, name))
				return len(matches) > 0
			})
			if at >= 0 {
				bases[0] = path.Join(bases[at], path.Dir(found[1]))
			} else if !strings.HasPrefix(found[1], "target/") {
				t.Errorf("%s names %s, which does not exist", name, found[1])
			}
		}
		for _, found := range makeCommand.FindAllStringSubmatch(page.Text, -1) {
			files, _ := filepath.Glob(filepath.Join(root, placeholder.ReplaceAllString(found[1], "*"), "Makefile"))
			if !slices.ContainsFunc(files, func(file string) bool {
				text, _ := os.ReadFile(file)
				return regexp.MustCompile(`(?m)^` + found[2] + `:`).Match(text)
			}) {
				t.Errorf("%s names make %s, which no Makefile has", name, found[2])
			}
		}
	}
}

func TestParse(t *testing.T) {
	page := docs.Parse("docs/a.md", "# The `x` of [y](z.md)\n\n## Again\n## Again\n`](no.md)` [b\nc](../d.md#e)\n```\n[f](no.md)\n# no\n```\n![g](h.svg)\n")
	var targets []string
	for _, link := range page.Links {
		name, anchor, _ := page.Resolve(link)
		targets = append(targets, name+"#"+anchor)
	}
	if want := []string{"docs/z.md#", "d.md#e", "docs/h.svg#"}; !slices.Equal(targets, want) {
		t.Errorf("%q", targets)
	}
	for _, anchor := range []string{"the-x-of-y", "again", "again-1"} {
		if !page.Anchors[anchor] {
			t.Errorf("no %s in %v", anchor, page.Anchors)
		}
	}
	if len(page.Anchors) != 3 || page.Links[1].Line != 6 {
		t.Errorf("%+v", page)
	}
}

// isMade is for folders that builds write, with pages of others.
func isMade(folder string) bool { return folder == "target" || folder == "node_modules" }

// read reads all Markdown files outside of build folders.
func read(t *testing.T) map[string]*docs.Page {
	t.Helper()
	pages := map[string]*docs.Page{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if entry.IsDir() && (isMade(entry.Name()) || strings.HasPrefix(entry.Name(), ".") && name != ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		pages[filepath.ToSlash(name)], err = docs.Read(root, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
