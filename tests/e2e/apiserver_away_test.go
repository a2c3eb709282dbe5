package e2e

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// After 20 seconds, the pauses between two attempts to reach the apiserver no longer grow.
var longOutage = regexp.MustCompile(`WARNING .*: the nodes: the watch has failed for ([2-9]\d|\d{3,}) s: (.*)`)

func TestNodesAreWatchedAgainWhenTheAPIServerIsBack(t *testing.T) {
	s := newScenario(t, "new nodes are known soon after the apiserver is back, and status says what was wrong", gatewayFront{}, controlplane.Names)
	nodes := objects.Nodes(4)
	s.nodes(nodes[:3])
	policies := []policy{refusing("tenant-quota")}
	gateway := serveGateway(s, product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies))))
	admin := s.adminOf(gateway)
	s.must(shared.RestartAPIServer(s.ctx, func() {
		found := s.statusWith(admin, longOutage)
		if want := "cannot connect to " + shared.REST.Host + ": connection refused"; found[2] != want {
			s.Errorf("%q instead of %q", found[2], want)
		}
	}))
	ready := time.Now()
	s.nodes(nodes[3:])
	s.statusWith(admin, regexp.MustCompile(`nodes +4 from Watch`))
	results.note(fmt.Sprintf("the new node was known %.1f s after the apiserver was ready", time.Since(ready).Seconds()))
	s.expectStatus(admin, noProblem, "No problem.")
}

// statusWith waits until status prints a match of this, and returns its groups.
func (s *scenario) statusWith(admin string, what *regexp.Regexp) (found []string) {
	s.Helper()
	var text string
	s.until("status to print "+what.String(), func(ctx context.Context) (bool, error) {
		var err error
		text, _, err = product.Status(ctx, admin)
		found = what.FindStringSubmatch(text)
		return found != nil, err
	}, func() string { return text })
	return found
}
