package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

// stage is a control plane whose kube-scheduler calls the gateway for each pod. The gateway binds.
type stage struct {
	settings
	cluster  *controlplane.Cluster
	gateway  *process.Server
	metrics  string
	backends []*backend
	// config is in the file that the gateway follows.
	config product.Config
	file   string
	// pods and nodeList exist, the oldest first. The numbers are of all that were created.
	pods                  []*corev1.Pod
	nodeList              []*corev1.Node
	podNumber, nodeNumber int
	changes               int
	restarts              atomic.Int64
	begin                 time.Time
}

// backend is a policy that is restarted at its address.
type backend struct {
	name, rules string
	port        ports.Port
	server      *process.Server
}

// The decision log fills its limit in the first minutes.
const decisionLog = 4 << 20

// policies have rules of the end-to-end tests, and one rejects every node for some pods, which wait until they are deleted.
func policies(dir string) (list []*backend, err error) {
	const stuck = "rules:\n- pods: {labels: [{key: " + stuckLabel + ", exists: true}]}\n" +
		"  require: [{key: kubernetes.io/arch, notIn: [amd64]}]\n  reason: no node may have it\n"
	file := filepath.Join(dir, "stuck.yaml")
	rules := filepath.Join("e2e", "testdata")
	return []*backend{
		{name: "racks", rules: filepath.Join(rules, "rack-drain.yaml")},
		{name: "tenants", rules: filepath.Join(rules, "tenant-quota.yaml")},
		{name: "zones", rules: filepath.Join(rules, "zone-preference.yaml")},
		{name: "stuck", rules: file},
	}, os.WriteFile(file, []byte(stuck), 0o600)
}

// start runs everything. The result must be stopped, whatever the error.
func start(ctx context.Context, dir string, settings settings) (*stage, error) {
	s := &stage{settings: settings}
	var err error
	// kube-scheduler writes an event for each pod.
	if s.cluster, err = controlplane.StartWith(ctx, dir, "--event-ttl=2m"); err != nil {
		return s, err
	}
	if err := objects.CreateNamespaces(ctx, s.cluster.Client, namespace); err != nil {
		return s, err
	}
	for range settings.nodes {
		s.nodeList = append(s.nodeList, s.nextNode())
	}
	if err := objects.CreateNodes(ctx, s.cluster.Client, s.nodeList); err != nil {
		return s, err
	}
	if s.backends, err = policies(dir); err != nil {
		return s, err
	}
	for _, b := range s.backends {
		if b.port, err = ports.Reserve(ports.ReuseAddress); err != nil {
			return s, err
		}
		if err := s.startBackend(ctx, b); err != nil {
			return s, err
		}
	}
	return s, s.startGateway(ctx)
}

func (s *stage) startBackend(ctx context.Context, b *backend) (err error) {
	b.server, err = product.StartLabelRules(ctx, s.cluster.Dir, b.name, b.rules, b.port.Address())
	return err
}

// startGateway runs it and a kube-scheduler that calls it.
func (s *stage) startGateway(ctx context.Context) (err error) {
	s.config = product.NewConfig(s.cluster, controlplane.Names, s.entries("500ms"))
	s.config.Pods = &product.Pods{Source: "Watch"}
	s.config.Binder, s.config.Requeue = "BuiltIn", "PodCondition"
	s.config.Decisions = &product.Decisions{MaxBytes: decisionLog}
	path, err := product.Binary(product.Gateway)
	if err != nil {
		return err
	}
	if s.gateway, s.file, err = product.StartGatewayOfFile(ctx, path, s.cluster.Dir, s.config); err != nil {
		return err
	}
	if s.metrics, err = s.gateway.Line(ctx, "metrics listening on "); err != nil {
		return err
	}
	entry := controlplane.ExtenderEntry(s.gateway.Address, controlplane.Names)
	entry.BindVerb = "bind"
	options := controlplane.SchedulerOptions{}
	options.Extenders = append(options.Extenders, entry)
	_, err = s.cluster.StartScheduler(ctx, options)
	s.begin = time.Now()
	return err
}

// entries are the backends with this timeout. A failure of one that is restarted is ignored.
func (s *stage) entries(timeout string) (list []product.Backend) {
	for _, b := range s.backends {
		list = append(list, product.Backend{
			Name: b.name, URL: "http://" + b.port.Address(),
			Filter: &product.Filter{Timeout: timeout, FailurePolicy: "Ignore"}, Score: &product.Score{Timeout: timeout, Weight: 1},
		})
	}
	return list
}

func (s *stage) stop() (err error) {
	if s.cluster != nil {
		err = s.cluster.Stop()
	}
	if s.gateway != nil {
		err = errors.Join(err, s.gateway.Kill())
	}
	for _, b := range s.backends {
		if b.server != nil {
			err = errors.Join(err, b.server.Kill())
		}
		b.port.Release()
	}
	return err
}

// nextNode has a name that no node had before.
func (s *stage) nextNode() *corev1.Node {
	node := objects.Nodes(1)[0]
	s.nodeNumber++
	node.Name = fmt.Sprintf("node-%06d", s.nodeNumber)
	node.Labels[corev1.LabelHostname] = node.Name
	node.Labels[objects.RackLabel] = fmt.Sprintf("rack-%d", s.nodeNumber%7)
	node.Labels[objects.TenantLabel] = fmt.Sprintf("tenant-%d", s.nodeNumber%4)
	node.Labels[objects.ZoneLabel] = "eu-west-1" + string("abc"[s.nodeNumber%3])
	return node
}
