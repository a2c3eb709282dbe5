package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// scenario is one case with its own nodes, pods and processes. Its methods fail the test rather than return errors.
type scenario struct {
	*testing.T
	ctx   context.Context
	front front
	mode  controlplane.NodeMode
	// socket is the gateway's for the plugin, "" if kube-scheduler asks an extender.
	socket string
	// release is the kube-scheduler; the zero value is that of this Go module. seen has what is observed with it.
	release release
	seen    *observations
}

// patience bounds a scenario. The longest waits are kube-scheduler's own, 1 to 10 s after an error.
const patience = 2 * time.Minute

// forEach runs a case in front of each of the fronts and in each mode. A plugin sends the names of nodes.
func forEach(t *testing.T, sentence string, fronts []front, modes []controlplane.NodeMode, body func(*scenario)) {
	for _, front := range fronts {
		plugin, isPlugin := front.(pluginFront)
		for _, mode := range modes {
			if isPlugin && mode != controlplane.Names {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", front.name(), mode), func(t *testing.T) {
				if plugin.isNightly {
					binaries.Nightly(t)
				}
				body(newScenario(t, sentence, front, mode))
			})
		}
	}
}

var bothModes = []controlplane.NodeMode{controlplane.Names, controlplane.FullObjects}

func newScenario(t *testing.T, sentence string, front front, mode controlplane.NodeMode) *scenario {
	return newScenarioOf(patience, t, sentence, front, mode)
}

// newScenarioOf is newScenario for one that takes longer.
func newScenarioOf(most time.Duration, t *testing.T, sentence string, front front, mode controlplane.NodeMode) *scenario {
	results.add(t, fmt.Sprintf("%s — %s, %s", sentence, front.name(), mode))
	ctx, cancel := context.WithTimeout(t.Context(), most)
	s := &scenario{T: t, ctx: ctx, front: front, mode: mode}
	if _, isPlugin := front.(pluginFront); isPlugin {
		s.socket = s.newSocket()
	}
	t.Cleanup(func() {
		cancel()
		s.clear()
	})
	return s
}

// newSocket is the path of a socket. It is not in the test's own folder, whose path can be too long.
func (s *scenario) newSocket() string {
	s.Helper()
	dir, err := os.MkdirTemp("", "eg-")
	s.must(err)
	s.Cleanup(func() { s.must(os.RemoveAll(dir)) })
	return filepath.Join(dir, "plugin.sock")
}

// clear leaves the cluster empty for the next scenario. The test's own context has ended by then.
func (s *scenario) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.must(objects.DeletePods(ctx, shared.Client, shop, search, other))
	s.must(objects.DeleteNodes(ctx, shared.Client))
}

func (s *scenario) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// nodes creates the nodes of the scenario.
func (s *scenario) nodes(nodes []*corev1.Node) {
	s.Helper()
	s.must(objects.CreateNodes(s.ctx, shared.Client, nodes))
}

// pods creates pods.
func (s *scenario) pods(pods ...*corev1.Pod) {
	s.Helper()
	s.must(objects.CreatePods(s.ctx, shared.Client, pods))
}

// scheduler starts kube-scheduler for the rest of the scenario.
func (s *scenario) scheduler(extenders []configv1.Extender, scores controlplane.InTreeScores) {
	s.Helper()
	s.startScheduler(controlplane.SchedulerOptions{Extenders: extenders, Scores: scores})
}

// startScheduler starts a kube-scheduler with these options for the rest of the scenario.
func (s *scenario) startScheduler(options controlplane.SchedulerOptions) *process.Server {
	s.Helper()
	options.Release, options.PluginRelease = s.release.scheduler, os.Getenv(pluginReleaseEnv)
	if s.socket != "" {
		options.Extenders, options.GatewayPlugin = nil, fmt.Sprintf(`{"socket": %q}`, s.socket)
	}
	scheduler, err := shared.StartScheduler(s.ctx, options)
	s.must(err)
	s.Cleanup(func() {
		s.showLog(scheduler.Process)
		s.must(scheduler.Kill())
	})
	return scheduler
}

// keep stops a server at the end of the scenario; a server that ignores SIGTERM fails it.
func (s *scenario) keep(server *process.Server) {
	s.Cleanup(func() {
		s.showLog(server.Process)
		// A scenario may have frozen it.
		s.must(server.Thaw())
		s.must(server.Stop())
	})
}

// showLog helps to understand a failure.
func (s *scenario) showLog(p *process.Process) {
	if s.Failed() {
		s.Logf("end of %s:\n%s", p.LogFile, process.Tail(p.LogFile, 15))
	}
}
