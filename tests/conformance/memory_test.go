package conformance

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"extender-gateway.io/tests/e2e/product"
)

// limit is how the README of an SDK recommends the limit of a container.
var limit = regexp.MustCompile(`(\d+) MiB is a comfortable limit of the container`)

// besides are the variables that a README recommends beside the limit.
var besides = map[string][2]string{
	"go":   {"GOMEMLIMIT", "220MiB"},
	"java": {"JAVA_TOOL_OPTIONS", "-Xmx256m"},
}

// The programs fill tables of 5,000 nodes and answer calls with as many, one after the other and eight at once.
func TestMemoryStaysWithinTheRecommendedLimits(t *testing.T) {
	speed, err := product.Binary("policy-speed")
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range product.Languages {
		t.Run(language, func(t *testing.T) {
			readme := map[string]string{"rust": "sdk"}[language]
			if readme == "" {
				readme = language
			}
			text, err := os.ReadFile(inRepository(t, "backends", readme, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			found := limit.FindSubmatch(text)
			if found == nil {
				t.Fatalf("backends/%s/README.md says nothing that matches %q", readme, limit)
			}
			mebibytes, err := strconv.ParseInt(string(found[1]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if variable, ok := besides[language]; ok {
				t.Setenv(variable[0], variable[1])
			}
			server, err := product.StartExample(t.Context(), t.TempDir(), language, product.Reference)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Kill(); err != nil {
					t.Error(err)
				}
			})
			output, err := exec.CommandContext(t.Context(), speed, "--args", referenceArgs, "--nodes", "5000", "--rounds", "1", "--calls", "16",
				"--endpoint", "http://"+server.Address).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			usage, err := server.Usage()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d MiB of %d", usage.Peak>>20, mebibytes)
			if usage.Peak > mebibytes<<20 {
				t.Errorf("the program had %d MiB; backends/%s/README.md recommends a limit of %d", usage.Peak>>20, readme, mebibytes)
			}
		})
	}
}
