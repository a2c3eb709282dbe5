package policy

import (
	"strings"
	"unicode/utf8"
)

// cut is the beginning of a text, at most this many bytes, without a broken character at its end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// valid is the text without broken characters, which no message of the contract may have.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
