package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// builtIn makes a configuration with the built-in binder and one policy that does not bind.
func (s *scenario) builtIn() product.Config {
	s.Helper()
	policies := []policy{refusing("rack-drain")}
	config := product.NewConfig(shared.Cluster, s.mode, backendEntries(policies, startBackends(s, policies)))
	config.Cluster.Kubeconfig = shared.Kubeconfig
	config.Binder = "BuiltIn"
	return config
}

// bindingEntry is for kube-schedulers that let the extender bind.
func (s *scenario) bindingEntry(address string) configv1.Extender {
	entry := controlplane.ExtenderEntry(address, s.mode)
	entry.BindVerb = "bind"
	return entry
}

func TestTheBuiltInBinderBinds(t *testing.T) {
	forEach(t, "the gateway binds 50 pods itself", nightlyDoors, bothModes, func(s *scenario) {
		s.bindMany(s.builtIn())
	})
}

func TestABackendBinds(t *testing.T) {
	forEach(t, "a backend binds 50 pods and annotates them with their node's zone", bothDoors, bothModes, func(s *scenario) {
		config := s.builtIn()
		config.Binder = product.LabelBinder
		config.Backends = append(config.Backends, s.labelBinder())
		for _, pod := range s.bindMany(config) {
			zone := s.node(pod.Spec.NodeName).Labels[objects.ZoneLabel]
			if got := pod.Annotations[objects.ZoneLabel]; got != zone {
				s.Errorf("%s is in zone %s and says %q", pod.Name, zone, got)
			}
		}
	})
}

// labelBinder starts the binder that annotates pods with their node's zone.
func (s *scenario) labelBinder() product.Backend {
	s.Helper()
	binder, err := product.StartLabelBinder(s.ctx, shared.Dir, shared.Kubeconfig)
	s.must(err)
	s.keep(binder)
	return product.Backend{
		Name: product.LabelBinder, URL: "http://" + binder.Address, Bind: &product.Bind{},
		Args: map[string]any{"labels": []string{objects.ZoneLabel}},
	}
}

// bindMany has the gateway bind 50 pods at once and returns them as they are afterwards.
func (s *scenario) bindMany(config product.Config) []*corev1.Pod {
	s.Helper()
	s.nodes(objects.Nodes(30))
	gateway := serveGateway(s, config)
	s.scheduler(entriesOf(s.bindingEntry(gateway.Address)), controlplane.DefaultScores)
	pods := objects.NewReplicaSet(search, "indexer", nil).Pods(50)
	s.pods(pods...)
	s.expectScheduled(pods)
	if binds := s.calls(gateway, "bind"); binds != len(pods) {
		s.Errorf("%d binds for %d pods", binds, len(pods))
	}
	return s.current(s.ctx, pods)
}

func entriesOf(entries ...configv1.Extender) []configv1.Extender { return entries }
