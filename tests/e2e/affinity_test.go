package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/kube/objects"
)

func TestRequiredAffinityIsHonoured(t *testing.T) {
	forEach(t, "required node affinity is honoured by node-affinity alone", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(12))
		s.schedulerWithout(replaced, s.startNodePolicies())
		for range 4 {
			s.expectIn("eu-west-1b", requiring("eu-west-1b"))
			s.expectIn("eu-west-1c", selecting("eu-west-1c"))
		}
		nowhere := requiring("eu-west-1z")
		s.pods(nowhere)
		s.expectRefused(nowhere, "0/12 nodes are available: 12 node(s) didn't match Pod's node affinity/selector."+
			" preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling.")
	})
}

// The nodes are equal except for their zones. Racks add a weight to zone a, so that the weights of several terms
// count.
func TestPreferredAffinityDecidesAmongEquals(t *testing.T) {
	forEach(t, "preferred node affinity decides among equal nodes", nightlyDoors, namesOnly, func(s *scenario) {
		s.nodes(objects.Nodes(12, objects.With(objects.RackLabel, "rack-1")))
		s.schedulerWithout(replaced, s.startNodePolicies())
		for range 4 {
			s.expectIn("eu-west-1a", preferring(term(objects.ZoneLabel, "eu-west-1a", 10)))
			s.expectIn("eu-west-1c", preferring(
				term(objects.ZoneLabel, "eu-west-1a", 30), term(objects.ZoneLabel, "eu-west-1c", 70), term(objects.RackLabel, "rack-1", 50),
			))
			s.expectIn("eu-west-1b", preferring(
				term(objects.ZoneLabel, "eu-west-1c", 40), term(objects.ZoneLabel, "eu-west-1b", 25), term(corev1.LabelOSStable, "linux", 1),
				term(objects.ZoneLabel, "eu-west-1b", 25),
			))
		}
	})
}

// expectIn creates the pod and expects it in this zone.
func (s *scenario) expectIn(zone string, pod *corev1.Pod) {
	s.Helper()
	s.pods(pod)
	if got := s.node(s.boundTo(pod)).Labels[objects.ZoneLabel]; got != zone {
		s.Errorf("%s is in %s instead of %s", pod.Name, got, zone)
	}
}

func requiring(zone string) *corev1.Pod {
	return withAffinity(corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{labelled(objects.ZoneLabel, zone)},
	}})
}

func selecting(zone string) *corev1.Pod {
	pod := tiny()
	pod.Spec.NodeSelector = map[string]string{objects.ZoneLabel: zone}
	return pod
}

func preferring(terms ...corev1.PreferredSchedulingTerm) *corev1.Pod {
	return withAffinity(corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms})
}

func term(key, value string, weight int32) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{Weight: weight, Preference: labelled(key, value)}
}

func labelled(key, value string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
	}}
}

func withAffinity(affinity corev1.NodeAffinity) *corev1.Pod {
	pod := tiny()
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &affinity}
	return pod
}

// tiny requests so little that nodes stay equally good for node-resources.
func tiny() *corev1.Pod { return requesting("tiny", 1) }
