package collector

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Attributes are by key. A value is a string, bool, int64, float64, []any of those, or Attributes.
type Attributes map[string]any

// Text is the string under the key; empty if there is none.
func (a Attributes) Text(key string) string {
	text, _ := a[key].(string)
	return text
}

// Number is the whole number under the key; -1 if there is none.
func (a Attributes) Number(key string) int64 {
	if number, found := a[key].(int64); found {
		return number
	}
	return -1
}

// Include reports whether all others are among these.
func (a Attributes) Include(others Attributes) bool {
	for key, value := range others {
		if !reflect.DeepEqual(a[key], value) {
			return false
		}
	}
	return true
}

// only keeps the given keys, in their order; without keys it has all, sorted.
func (a Attributes) only(keys []string) (words []string) {
	if len(keys) == 0 {
		keys = slices.Sorted(maps.Keys(a))
	}
	for _, key := range keys {
		if value, found := a[key]; found {
			words = append(words, key+"="+text(value))
		}
	}
	return words
}

// text quotes strings whose end would not be visible.
func text(value any) string {
	s, is := value.(string)
	if !is {
		return fmt.Sprint(value)
	}
	if quoted := strconv.Quote(s); s == "" || strings.ContainsAny(s, " =") || quoted != `"`+s+`"` {
		return quoted
	}
	return s
}
