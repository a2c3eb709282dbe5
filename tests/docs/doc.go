// Package docs reads the repository's Markdown: pages, their anchors and their links. Its tests check that all links lead
// somewhere and that docs/SUMMARY.md has every page; docs/book uses it to make the book.
package docs
