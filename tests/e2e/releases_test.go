package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/schedulers"
)

// release is a kube-scheduler and its minor version, such as 1.24.
type release struct {
	minor string
	// scheduler is what startScheduler starts. Of a release of which only the client is built, client is its path.
	scheduler controlplane.Release
	client    string
}

// releaseCase fails if a kube-scheduler decides differently, and observes what may differ between releases. Each uses
// what scheduler-config prints for the release.
type releaseCase struct {
	title string
	run   func(*scenario)
}

// releasesEnv selects the releases: "all", or "" for the newest and the oldest of each kind, and the newest alone under -short.
const releasesEnv = "EXTENDER_MATRIX"

// TestReleases runs the same cases with kube-schedulers of several releases, and similar ones with the clients of older
// ones. All of them use the kube-apiserver of this Go module, because a kube-scheduler must not be newer than its
// apiserver. docs/compatibility.md has the results.
func TestReleases(t *testing.T) {
	seen := &observations{}
	for _, r := range selected(schedulers.Client) {
		t.Run(r.Minor(), func(t *testing.T) {
			seen.with(t, release{minor: r.Minor(), client: binaries.Program(t, r.Program())}, clientCases)
		})
	}
	for _, r := range selected(schedulers.Scheduler) {
		t.Run(r.Minor(), func(t *testing.T) {
			binaries.Program(t, r.Program())
			seen.with(t, release{minor: r.Minor(), scheduler: controlplane.ReleaseOf(r)}, releaseCases)
		})
	}
	for _, minor := range selectedOfPlugin(t) {
		t.Run("plugin "+minor, func(t *testing.T) {
			binaries.Program(t, binaries.PluginScheduler+"-"+minor)
			t.Setenv(pluginReleaseEnv, minor)
			for title, run := range pluginCases {
				t.Run(title, run)
			}
		})
	}
	newest := release{minor: newestRelease(t)}
	t.Run(newest.minor, func(t *testing.T) { seen.with(t, newest, releaseCases) })
	results.note(string(seen.table()))
	seen.compareWithDocument(t)
}

// with runs the cases with a release, in both modes.
func (o *observations) with(t *testing.T, release release, cases []releaseCase) {
	for _, c := range cases {
		for _, mode := range bothModes {
			t.Run(c.title+"/"+mode.String(), func(t *testing.T) {
				s := newScenario(t, "kube-scheduler "+release.minor+": "+c.title, gatewayFront{}, mode)
				s.release, s.seen = release, o
				c.run(s)
			})
		}
	}
}

// pluginReleaseEnv is the release of the kube-scheduler with the plugin, if it is another than that of go.mod.
const pluginReleaseEnv = "EXTENDER_PLUGIN_RELEASE"

// pluginCases run a kube-scheduler with the plugin. With that of go.mod they are tests of their own.
var pluginCases = map[string]func(*testing.T){
	"rejection":      TestThroughThePluginARefusedPodComesBackWhenItsNodeChanges,
	"failed gateway": TestThroughThePluginPodsWaitForTheGateway,
	"preempt":        TestThroughThePluginNoProtectedPodIsEvicted,
	"rejecting node": TestThroughThePluginPodsAreEvictedFromANodeThatAPolicyRejectsForThem,
	"pod that left":  TestThroughThePluginAPodThatIsGoneCountsNoMore,
	"bind":           TestThroughThePluginTheGatewayBindsUpToALimit,
	"batches":        TestThroughThePluginEqualPodsShareAnAnswer,
	"changes":        TestThroughThePluginNoKeptAnswerOutlivesWhatItDependsOn,
	"2,000 nodes":    TestThroughThePluginALargeClusterIsNotAskedAboutWhole,
}

// selectedOfPlugin are the releases for which the plugin is built and that are tested, oldest first, but for that of go.mod.
func selectedOfPlugin(t *testing.T) []string {
	t.Helper()
	all, err := binaries.PluginReleases()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(releasesEnv) != "all" {
		return nil
	}
	return all
}

// selected are the releases with a module of their own that are tested, oldest first.
func selected(kind schedulers.Kind) []schedulers.Release {
	all := schedulers.Of(kind)
	switch {
	case os.Getenv(releasesEnv) == "all":
		return all
	case testing.Short():
		return nil
	}
	return all[:1]
}

// newestRelease is the minor version of Kubernetes in go.mod.
func newestRelease(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(strings.TrimPrefix(string(out), "v"), ".")
	return parts[0] + "." + parts[1]
}
