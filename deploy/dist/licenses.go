package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"extender-gateway.io/deploy/archive"
)

// licenseName matches the names of files with licences and notices.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|unlicense)([-._].*)?$`)

// thirdParty returns the licences of everything that is linked into the programs: crates, Rust's standard library, and the
// C library with the compiler's support code, which are linked statically.
func thirdParty(crates map[string]crate) ([]archive.File, error) {
	toolchain, err := sysroot()
	if err != nil {
		return nil, err
	}
	documentation := filepath.Join(toolchain, "share/doc/rust")
	text, err := crateLicenses(crates, filepath.Join(documentation, "licenses"))
	if err != nil {
		return nil, err
	}
	files := []archive.File{{Name: "third-party/crates.txt", Mode: 0o644, Content: text}}
	for name, pattern := range map[string]string{
		"rust-standard-library.html": filepath.Join(documentation, "COPYRIGHT-library.html"),
		"glibc.txt":                  "/usr/share/doc/libc6-dev/copyright",
		"LGPL-2.1.txt":               "/usr/share/common-licenses/LGPL-2.1",
		"libgcc.txt":                 "/usr/share/doc/libgcc-*-dev/copyright",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s: no such file; archives are made on Debian, with libc6-dev and libgcc-dev", pattern)
		}
		file, err := archive.Read(found[len(found)-1], "third-party/"+name, 0o644)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// crateLicenses lists the crates of others, and every distinct text with the crates that have it.
func crateLicenses(crates map[string]crate, standard string) ([]byte, error) {
	var list bytes.Buffer
	users := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(crates)) {
		c := crates[key]
		if c.ours {
			continue
		}
		fmt.Fprintf(&list, "%s: %s\n", key, c.License)
		texts, err := licenseTexts(c, standard)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			users[text] = append(users[text], key)
		}
	}
	out := bytes.NewBufferString("The programs contain these crates, under these licences. The texts follow.\n\n")
	out.Write(list.Bytes())
	byUsers := func(a, b string) int {
		return strings.Compare(strings.Join(users[a], ", ")+a, strings.Join(users[b], ", ")+b)
	}
	for _, text := range slices.SortedFunc(maps.Keys(users), byUsers) {
		fmt.Fprintf(out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], ", "), text)
	}
	return out.Bytes(), nil
}

// licenseTexts are those of the files in the crate, or the standard texts of its licences where it has no file.
func licenseTexts(c crate, standard string) (texts []string, err error) {
	err = filepath.WalkDir(c.directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !licenseName.MatchString(entry.Name()) {
			return err
		}
		return add(&texts, path)
	})
	if err != nil || len(texts) > 0 {
		return texts, err
	}
	for _, license := range strings.FieldsFunc(c.License, func(r rune) bool { return strings.ContainsRune(" /()", r) }) {
		err := add(&texts, filepath.Join(standard, license+".txt"))
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s has no file with its licence, %q", c.key(), c.License)
	}
	return texts, nil
}

// add adds the text of a file. Texts that differ in spaces at the ends of lines are one.
func add(texts *[]string, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var text strings.Builder
	for line := range strings.Lines(string(content)) {
		text.WriteString(strings.TrimRight(line, " \t\r\n") + "\n")
	}
	if trimmed := strings.Trim(text.String(), "\n"); !slices.Contains(*texts, trimmed) {
		*texts = append(*texts, trimmed)
	}
	return nil
}
