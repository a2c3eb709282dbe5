package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
	"extender-gateway.io/tests/kube/scripted"
)

// fleet is a policy at several addresses of one name.
type fleet struct {
	*scenario
	ports []ports.Port
	// servers are the running ones, by IP address.
	servers map[string]*process.Server
	// hosts is the file in which the name has its addresses.
	hosts string
}

const fleetName = "racks.example.com"

// fleet reserves addresses, at which nothing runs yet.
func (s *scenario) fleet(addresses int) *fleet {
	s.Helper()
	reserved, err := ports.ReserveEach(ports.ReuseAddress, addresses)
	s.must(err)
	for _, port := range reserved {
		s.Cleanup(port.Release)
	}
	return &fleet{scenario: s, ports: reserved, servers: map[string]*process.Server{}, hosts: filepath.Join(s.TempDir(), "hosts")}
}

func (f *fleet) url() string { return "http://" + fleetName + ":" + f.ports[0].String() }

// start runs rack-drain at one of the addresses.
func (f *fleet) start(at ports.Port) {
	f.Helper()
	f.servers[at.IP()] = startBackend(f.scenario, refusing("rack-drain"), at.Address())
}

// publish gives the name these addresses. The file stays the same one, because gateways see only that.
func (f *fleet) publish(at []ports.Port) {
	f.Helper()
	lines := []string{"127.0.0.1 localhost"}
	for _, port := range at {
		lines = append(lines, port.IP()+" "+fleetName)
	}
	f.must(os.WriteFile(f.hosts, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// called is a gateway that kube-scheduler calls, with one backend: racks.
type called struct {
	*scenario
	gateway   *process.Server
	admin     string
	scheduler *process.Server
}

// callFleet runs a gateway that calls the fleet at all of its addresses for each pod, and a kube-scheduler that calls the
// gateway.
func (f *fleet) callFleet() *called {
	f.Helper()
	f.publish(f.ports)
	entry := backend(f.url(), "Fail")
	entry.PureAnswers = "AskedEachTime"
	dir, err := os.MkdirTemp(shared.Dir, "fleet-")
	f.must(err)
	config := product.NewConfig(shared.Cluster, f.mode, []product.Backend{entry})
	config.Extender.Socket = f.socket
	gateway, err := product.StartGatewayWithHosts(f.ctx, dir, f.hosts, config)
	f.must(err)
	f.keep(gateway)
	return f.callGateway(gateway)
}

func (s *scenario) callGateway(gateway *process.Server) *called {
	s.Helper()
	entry := controlplane.ExtenderEntry(gateway.Address, s.mode)
	scheduler := s.startScheduler(controlplane.SchedulerOptions{Extenders: entriesOf(entry)})
	return &called{s, gateway, s.adminOf(gateway), scheduler}
}

func connectedAddresses(count float64) metric {
	return metric{`extender_gateway_backend_connected_addresses{backend="racks"}`, equals(count)}
}

func TestOneOfSeveralAddressesIsLost(t *testing.T) {
	forEach(t, "one of three addresses of a backend crashes: pods are scheduled with the others", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(60))
		f := s.fleet(3)
		for _, port := range f.ports {
			f.start(port)
		}
		c := f.callFleet()
		c.expectMetric(c.gateway, connectedAddresses(3))
		replicas := objects.NewReplicaSet(shop, "reports", nil)
		before, lost := replicas.Pods(30), f.ports[1]
		c.pods(before...)
		c.someOf(before, "to be scheduled", isBound)
		c.must(f.servers[lost.IP()].Kill())
		c.expectMetric(c.gateway, connectedAddresses(2))
		c.bound(before...)
		// Calls that were in progress at the lost address may have failed; those from now on may not.
		tried, during := c.attempts(c.scheduler), replicas.Pods(30)
		c.pods(during...)
		c.expectOnGoodRacks(slices.Concat(before, during))
		if since := c.attempts(c.scheduler).since(tried); since.failed > 0 {
			c.Errorf("%.0f attempts failed although two addresses were left", since.failed)
		}
		c.expectEvidence(c.gateway, c.admin, during[0], evidence{
			row:     regexp.MustCompile(fmt.Sprintf(`%s  +down: cannot connect to %s:%s: connection refused`, lost.Address(), fleetName, lost)),
			status:  []string{"connected to 2 of 3 addresses"},
			explain: []string{during[0].Name + " is on "},
			metrics: []metric{connected(1)},
			log:     []logLine{once("address of the backend is down", lost.Address())},
		})
		f.start(lost)
		c.expectMetric(c.gateway, connectedAddresses(3))
		c.expectStatus(c.admin, noProblem, "No problem.", "connected to 3 of 3 addresses")
	})
}

func (c *called) expectOnGoodRacks(pods []*corev1.Pod) {
	c.Helper()
	for i, node := range c.bound(pods...) {
		if rack := node.Labels[objects.RackLabel]; rack == "rack-2" || rack == "rack-5" {
			c.Errorf("%s is in %s", pods[i].Name, rack)
		}
	}
}

func TestAnAddressThatIsNotServingGetsNoCalls(t *testing.T) {
	forEach(t, "an address whose health service reports NOT_SERVING gets no calls until it serves again", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(12))
		f := s.fleet(2)
		policies, healths := make([]*scripted.Policy, 2), make([]*health.Server, 2)
		for i, port := range f.ports {
			policies[i], healths[i] = scripted.New("racks", scripted.Accept), health.NewServer()
			f.startGRPCAt(port.Address(), func(server *grpc.Server) {
				policies[i].Register(server)
				healthpb.RegisterHealthServer(server, healths[i])
			})
		}
		c := f.callFleet()
		c.expectMetric(c.gateway, connectedAddresses(2))
		replicas, stops := objects.NewReplicaSet(shop, "reports", nil), f.ports[1].Address()
		healths[1].SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		c.statusWith(c.admin, regexp.MustCompile(stops+`  +not called: UNAVAILABLE: its health service reports NOT_SERVING`))
		before, pods := policies[1].Calls(), replicas.Pods(20)
		c.pods(pods...)
		c.bound(pods...)
		if calls := policies[1].Calls() - before; calls > 0 {
			c.Errorf("the address got %d calls", calls)
		}
		c.expectStatus(c.admin, noProblem, "No problem.")
		healths[1].SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
		c.statusWith(c.admin, regexp.MustCompile(stops+`  +connected `))
		c.until("calls to the address", func(ctx context.Context) (bool, error) {
			pod := replicas.Pod()
			c.pods(pod)
			c.boundTo(pod)
			return policies[1].Calls() > before, nil
		}, func() string { return "none" })
		c.logged(c.gateway, once("NOT_SERVING; other addresses are used", stops))
		c.logged(c.gateway, once("health of the address: serving again", stops))
	})
}
