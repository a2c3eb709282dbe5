package observability

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/certificates"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
	"extender-gateway.io/tests/kube/prometheus"
)

// The labels that Prometheus gives the series of the gateway, as with a ServiceMonitor.
const (
	namespace    = "scheduling"
	gatewayJob   = "extender-gateway"
	schedulerJob = "kube-scheduler"
)

// The namespaces of pods.
const (
	// shop has pods that are scheduled.
	shop = "shop"
	// full has pods that a backend rejects on every node.
	full = "full"
)

// scene is a control plane whose kube-scheduler calls a gateway, and a Prometheus that scrapes both.
type scene struct {
	*testing.T
	ctx     context.Context
	dir     string
	cluster *controlplane.Cluster
	gateway *process.Server
	// other is a second replica, without a binder.
	other      *process.Server
	prometheus *prometheus.Server
}

func (s *scene) must(err error) {
	s.Helper()
	must(s.T, err)
}

// keep ends a process at the end of the test.
func (s *scene) keep(server *process.Server) *process.Server {
	s.Cleanup(func() { s.must(server.Kill()) })
	return server
}

// start runs everything with a gateway that has one backend of each kind: see backends.
func start(ctx context.Context, t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, ctx: ctx, dir: t.TempDir()}
	cluster, err := controlplane.Start(ctx, s.dir)
	s.cluster = cluster
	t.Cleanup(func() { s.must(cluster.Stop()) })
	s.must(err)
	s.must(objects.CreateNamespaces(ctx, cluster.Client, shop, full))
	s.must(objects.CreateNodes(ctx, cluster.Client, objects.Nodes(6)))
	s.startGateway()
	s.startOther()
	entry := controlplane.ExtenderEntry(s.gateway.Address, controlplane.Names)
	entry.BindVerb = "bind"
	entry.PreemptVerb = "preempt"
	entry.URLPrefix = "https://" + s.gateway.Address
	entry.EnableHTTPS = true
	entry.TLSConfig = &configv1.ExtenderTLSConfig{Insecure: true}
	scheduler, err := cluster.StartScheduler(ctx, controlplane.SchedulerOptions{Extenders: []configv1.Extender{entry}})
	s.must(err)
	s.startPrometheus(scheduler.Address)
	return s
}

// startGateway runs it with TLS, so that there is a certificate that expires, and with a collector that is away, so that spans
// are lost.
func (s *scene) startGateway() {
	s.Helper()
	config := product.NewConfig(s.cluster, controlplane.Names, s.backends())
	config.Extender.TLS = s.certificate()
	config.Pods = &product.Pods{Source: "Watch"}
	config.Binder = "BuiltIn"
	config.Requeue = "PodCondition"
	away, err := s.cluster.UnusedAddress()
	s.must(err)
	config.OTLP = &product.OTLP{Endpoint: "http://" + away, Protocol: "grpc"}
	config.Traces = &product.Traces{Exporter: "OTLP", Ratio: 1}
	gateway, err := product.StartGateway(s.ctx, s.dir, config)
	s.must(err)
	s.gateway = s.keep(gateway)
}

// backends are one that rejects and scores, one that rejects every node of some pods, one in shadow that disagrees, one that
// fails sometimes, and one that is away.
func (s *scene) backends() []product.Backend {
	s.Helper()
	flaky := startFlaky(s.T)
	s.writeQuota("the quota of the namespace is used up")
	rules := func(name, file string) string {
		server, err := product.StartLabelRules(s.ctx, s.dir, name, file, "127.0.0.1:0")
		s.must(err)
		return "http://" + s.keep(server).Address
	}
	away, err := s.cluster.UnusedAddress()
	s.must(err)
	return []product.Backend{
		{Name: "zones", URL: rules("zones", "../testdata/zone-preference.yaml"), Filter: &product.Filter{}, Score: &product.Score{Weight: 1}},
		{Name: "quota", URL: rules("quota", s.quotaRules()), Filter: &product.Filter{}, MaxRejectShare: &product.MaxRejectShare{Share: 1}},
		{Name: "canary", URL: rules("canary", "../testdata/zone-reserved.yaml"), Mode: "Shadow", Filter: &product.Filter{}},
		{Name: "flaky", URL: "http://" + flaky, Filter: &product.Filter{Timeout: "100ms", FailurePolicy: "Fail"}},
		{Name: "away", URL: "http://" + away, Filter: &product.Filter{FailurePolicy: "Ignore"}},
	}
}

// quotaRules is the file that the backend quota follows.
func (s *scene) quotaRules() string { return filepath.Join(s.dir, "quota.yaml") }

// certificate makes a certificate that signs itself.
func (s *scene) certificate() *product.TLS {
	s.Helper()
	shown := certificates.In(s.dir, "gateway")
	s.must(certificates.SelfSigned(shown, "gateway"))
	return &product.TLS{CertFile: shown.CertFile, KeyFile: shown.KeyFile}
}

func (s *scene) startPrometheus(scheduler string) {
	s.Helper()
	var replicas []string
	for _, gateway := range []*process.Server{s.gateway, s.other} {
		metrics, err := gateway.Line(s.ctx, "metrics listening on ")
		s.must(err)
		replicas = append(replicas, metrics)
	}
	rules, err := filepath.Abs(alertsFile)
	s.must(err)
	s.prometheus, err = prometheus.Start(s.ctx, s.dir, prometheus.Config{
		Global:    prometheus.EverySecond,
		RuleFiles: []string{rules},
		ScrapeConfigs: []prometheus.Job{
			{Name: gatewayJob, Targets: []prometheus.Target{{Addresses: replicas, Labels: map[string]string{"namespace": namespace}}}},
			{
				Name: schedulerJob, Scheme: "https", TLS: &prometheus.TLS{InsecureSkipVerify: true},
				Targets: []prometheus.Target{{Addresses: []string{scheduler}}},
			},
		},
	})
	s.must(err)
	s.Cleanup(func() { s.must(s.prometheus.Close()) })
	// The values of variables are those of all targets.
	s.must(s.prometheus.UntilIs(s.ctx, "count(up == 1)", fmt.Sprint(len(replicas)+1)))
}
