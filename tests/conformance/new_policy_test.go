package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/binaries"
)

// fast are the languages whose first build takes seconds.
var fast = []string{"python", "go"}

// scaffold is how the README of a new policy tests, builds and starts it.
type scaffold struct {
	language string
	// steps run in the new folder.
	steps [][]string
	start []string
}

const newPolicy = "closed-zones"

const newPolicyArgs = `{"label": "zone", "closed": ["a"]}`

// scaffolds also have bounds for what a policy without options depends on.
func scaffolds() []scaffold {
	sdk := func(language string) string { return "../extender-gateway/backends/" + language }
	atMost := func(most, count string) []string {
		return []string{"bash", "-euc", "test $(" + count + ") -le " + most}
	}
	return []scaffold{
		{"rust", [][]string{
			{"cargo", "test", "--quiet"}, {"cargo", "build", "--quiet"},
			atMost("120", "cargo tree --edges no-dev --prefix none | cut -d ' ' -f 1 | sort -u | wc -l"),
		}, []string{"target/debug/" + newPolicy}},
		{"python", [][]string{
			{"python3", "-m", "venv", ".venv"},
			{".venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", sdk("python"), "pytest"},
			{".venv/bin/pytest"},
		}, []string{".venv/bin/python", "policy.py"}},
		{"go", [][]string{
			{"go", "mod", "tidy"}, {"go", "test", "./..."}, {"go", "build", "-o", "bin/" + newPolicy, "."},
			atMost("45", "go list -m all | wc -l"),
		}, []string{"bin/" + newPolicy}},
		{"typescript", [][]string{
			{"make", "-C", sdk("typescript"), "dist"}, {"npm", "install", "--no-audit", "--no-fund"}, {"npm", "test"},
			// With another build of the SDK, what is locked is installed, too.
			{"bash", "-euc", `echo >> "$0"/dist/src/index.js; npm ci --no-audit --no-fund; cmp "$0"/dist/src/index.js node_modules/@extender-gateway/policy/dist/src/index.js`, sdk("typescript")},
		}, []string{"node", "dist/main.js"}},
		{"java", [][]string{
			{"mvn", "-B", "-q", "-f", sdk("java"), "-pl", "sdk", "-am", "-Dmaven.test.skip=true", "install"},
			{"mvn", "-B", "-q", "package"},
		}, []string{"java", "-jar", "target/" + newPolicy + ".jar"}},
	}
}

// The files in git and the new policy are moved together before anything is built: as a colleague has them.
func TestANewPolicyBuildsAndConforms(t *testing.T) {
	gateway, err := product.Binary(product.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	suite, err := product.Binary("policy-conformance")
	if err != nil {
		t.Fatal(err)
	}
	checkout := inRepository(t)
	for _, language := range scaffolds() {
		t.Run(language.language, func(t *testing.T) {
			if !slices.Contains(fast, language.language) {
				binaries.Nightly(t)
			}
			t.Parallel()
			made, moved := t.TempDir(), filepath.Join(t.TempDir(), "moved")
			run(t, checkout, "bash", "-euc", `mkdir "$0"; git ls-files -z | xargs -0 cp -P --parents -t "$0"`, filepath.Join(made, "extender-gateway"))
			run(t, made, gateway, "new-policy", "--language", language.language, "--checkout", "extender-gateway", newPolicy)
			if err := os.Rename(made, moved); err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(moved, newPolicy)
			for _, step := range language.steps {
				run(t, folder, step[0], step[1:]...)
			}
			path, line := inFolder(folder, language.start)
			server := serveIn(t, folder, path, append(line, "--address", "127.0.0.1:0"))
			run(t, folder, suite, "--quiet", "--endpoint", "http://"+server.Address, "--args", newPolicyArgs)
		})
	}
}

// inFolder is the command line of a program of the folder, or of a command in PATH.
func inFolder(folder string, line []string) (string, []string) {
	if filepath.Dir(line[0]) == "." {
		path, err := exec.LookPath(line[0])
		if err == nil {
			return path, absolute(folder, line[1:])
		}
	}
	return filepath.Join(folder, line[0]), absolute(folder, line[1:])
}

// absolute names the files of the folder from anywhere.
func absolute(folder string, words []string) []string {
	var found []string
	for _, word := range words {
		if _, err := os.Stat(filepath.Join(folder, word)); err == nil {
			word = filepath.Join(folder, word)
		}
		found = append(found, word)
	}
	return found
}

func run(t *testing.T, folder, program string, line ...string) {
	t.Helper()
	if filepath.Dir(program) != "." && !filepath.IsAbs(program) {
		program = filepath.Join(folder, program)
	}
	command := exec.CommandContext(t.Context(), program, line...)
	command.Dir = folder
	// Where the project's own programs are built is no place for others.
	command.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "CARGO_TARGET_DIR=") })
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", program, line, err, output)
	}
}
