// Command book prepares the sources of the book, and checks the book that mdBook has made of them.
//
// The pages of docs/ are at the root of the book, other files of the repository at their paths. So a link such as
// ../deploy/chart/values.yaml becomes deploy/chart/values.yaml, and the file is copied there.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "..", "the root of the repository")
	sources := flag.String("sources", "", "make the sources of the book in this folder")
	check := flag.String("check", "", "check the links of the book in this folder")
	flag.Parse()
	var err error
	switch {
	case flag.NArg() > 0 || (*sources == "") == (*check == ""):
		err = errors.New("exactly one of -sources and -check is needed")
	case *sources != "":
		err = makeSources(*root, *sources)
	default:
		err = checkBook(*check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "book:", err)
		os.Exit(1)
	}
}
