package equivalence

import (
	"fmt"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// The largest case.
const (
	mostPolicies = 5
	mostNodes    = 30
)

// nameLabel repeats a node's name, for policies that read more than the name.
const nameLabel = "acme.io/known-as"

// managedResource is the resource of managed policies.
const managedResource = "example.com/gpu"

// question is one generated case.
type question struct {
	mode     controlplane.NodeMode
	nodes    []*corev1.Node
	policies []*policy
	pods     []*corev1.Pod
}

// generator draws cases. Equal seeds give equal cases.
type generator struct{ *rand.Rand }

func newGenerator(seed int64) generator { return generator{rand.New(rand.NewSource(seed))} }

func (g generator) question() question {
	q := question{mode: pick(g, controlplane.Names, controlplane.FullObjects), nodes: objects.Nodes(1 + g.Intn(mostNodes))}
	for i, node := range q.nodes {
		node.Name = fmt.Sprintf("node-%02d", i)
		node.Labels[nameLabel] = node.Name
	}
	for i := range 1 + g.Intn(mostPolicies) {
		q.policies = append(q.policies, g.policy(i, q))
	}
	q.pods = []*corev1.Pod{g.pod(0), g.pod(1)}
	return q
}

func (g generator) policy(i int, q question) *policy {
	p := &policy{
		name:      fmt.Sprintf("policy-%c", 'a'+i),
		filters:   g.oneIn(5, false),
		ignorable: g.oneIn(3, true),
		weight:    pick[int64](g, 1, 2, 7, 100, 1_000_000),
		managed:   g.oneIn(5, true),
		wholeSet:  g.oneIn(4, true),
		down:      g.oneIn(20, true),
		wire:      wire{told: g.told(q.mode), scoresWithFilter: g.oneIn(2, true)},
	}
	p.scores = !p.filters || g.oneIn(2, true)
	p.filterFailure, p.scoreFailure = g.failure(q.nodes), g.failure(q.nodes)
	share := pick(g, 0.0, 0.1, 0.2, 0.5, 0.5, 0.9)
	p.tables[0] = g.table(q.nodes, share)
	p.tables[1] = p.tables[0]
	if p.wholeSet {
		p.tables[1] = g.table(q.nodes, share)
	}
	return p
}

// table has an opinion about every node; a share of them is refused.
func (g generator) table(nodes []*corev1.Node, share float64) map[string]opinion {
	scale := pick(g, 11, 11, 1000, 1<<31-1)
	lowest := pick(g, 0, 0, -scale/2)
	table := map[string]opinion{}
	for _, node := range nodes {
		o := opinion{score: int32(lowest + g.Intn(scale))}
		if g.Float64() < share {
			o.reason, o.mayHelp = fmt.Sprintf("reason %d", g.Intn(4)), g.oneIn(2, true)
		}
		table[node.Name] = o
	}
	return table
}

func (g generator) failure(nodes []*corev1.Node) failure {
	if g.oneIn(5, false) {
		return failure{}
	}
	f := failure{kind: pick(g, refused, nonsense)}
	if g.oneIn(3, false) {
		f.at = nodes[g.Intn(len(nodes))].Name
	}
	return f
}

func (g generator) told(mode controlplane.NodeMode) told {
	if mode == controlplane.Names {
		return byName
	}
	return pick(g, byName, byLabel, byJSON)
}

// pod is a different pod for each i. About half of them request the managed resource, some of these an amount of 0.
func (g generator) pod(i int) *corev1.Pod {
	pod := objects.NewReplicaSet("shop", "checkout", nil).Pod()
	pod.Name, pod.UID = fmt.Sprintf("checkout-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
	want := corev1.ResourceList{managedResource: *resource.NewQuantity(int64(g.Intn(3)), resource.DecimalSI)}
	main := &pod.Spec.Containers[0]
	switch g.Intn(6) {
	case 0:
		main.Resources.Requests[managedResource] = want[managedResource]
	case 1:
		main.Resources.Limits[managedResource] = want[managedResource]
	case 2:
		pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: main.Image, Resources: corev1.ResourceRequirements{Limits: want}}}
	}
	return pod
}

// oneIn is hit once in n times, and otherwise its opposite.
func (g generator) oneIn(n int, hit bool) bool { return (g.Intn(n) == 0) == hit }

func pick[T any](g generator, choices ...T) T { return choices[g.Intn(len(choices))] }
