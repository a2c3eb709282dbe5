package binaries

import "testing"

// Nightly skips a test that is slow and rarely breaks, unless all tests are run. `make test` runs the short ones.
func Nightly(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("only without -short: make nightly runs it")
	}
}

// Program builds a program for a test. It is not bounded by a test's own time: the first build takes minutes.
func Program(t testing.TB, name string) string {
	t.Helper()
	paths, err := Build(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return paths[name]
}
