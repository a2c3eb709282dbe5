package policytest

import (
	"time"

	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
)

// Node is a node to test a policy with. Its methods change it and return it.
type Node struct {
	row  *v1beta1.NodeRow
	pods []running
}

// running are equal pods on a node.
type running struct {
	pod         *v1beta1.Pod
	pods        uint32
	terminating uint32
}

// NewNode is a node without labels.
func NewNode(name string) *Node {
	return &Node{row: &v1beta1.NodeRow{Name: name, Facts: &v1beta1.NodeFacts{Unschedulable: proto.Bool(false)}}}
}

// Facts are all facts of the node, to be changed directly where there is no method for a part. All labels and annotations are
// entries there.
func (n *Node) Facts() *v1beta1.NodeFacts { return n.row.Facts }

// Label adds a label.
func (n *Node) Label(key, value string) *Node {
	set(&n.row.Facts.Labels, key, value)
	return n
}

// Annotation adds an annotation.
func (n *Node) Annotation(key, value string) *Node {
	set(&n.row.Facts.Annotations, key, value)
	return n
}

// Taint adds a taint, whose effect is NoSchedule, PreferNoSchedule or NoExecute.
func (n *Node) Taint(key, value, effect string) *Node {
	n.row.Facts.Taints = append(n.row.Facts.Taints, &v1beta1.Taint{Key: key, Value: value, Effect: effect})
	return n
}

// Allocatable sets status.allocatable. Sums of requests contain the extended resources that the node reports.
func (n *Node) Allocatable(resources *policy.Resources) *Node {
	n.row.Facts.Allocatable = resources
	return n
}

// Usage sets the requests of the pods on the node, for a verb that reads NodeUsage; without, they are not known.
func (n *Node) Usage(usage *policy.Usage) *Node {
	n.row.Usage = usage
	return n
}

// Nominated sets the requests of the pods that are nominated to the node, for a verb that reads NodeNominated; without, they are
// not known.
func (n *Node) Nominated(requests *policy.Usage) *Node {
	n.row.Nominated = requests
	return n
}

// RawJSON sets the object's JSON, for a verb that reads NodeRawJSON.
func (n *Node) RawJSON(json string) *Node {
	n.row.RawJson = []byte(json)
	return n
}

// Running adds this many pods like this one. A verb that counts pods gets the counts that the gateway would send for a
// cluster of the nodes of the call; the usage stays as it is.
func (n *Node) Running(pod *Pod, pods uint32) *Node {
	n.pods = append(n.pods, running{pod: clone(pod.pod), pods: pods})
	return n
}

// Terminating adds pods that are being deleted.
func (n *Node) Terminating(pod *Pod, pods uint32) *Node {
	n.pods = append(n.pods, running{pod: clone(pod.pod), pods: pods, terminating: pods})
	return n
}

// Pod is a pod to test a policy with. Its methods change it and return it.
type Pod struct {
	pod      *v1beta1.Pod
	snapshot string
	cluster  string
	callID   string
}

// testID is the id of calls for pods that set none.
const testID = "test"

// NewPod is a pod without labels, named "pod" with the UID "uid".
func NewPod(namespace string) *Pod {
	return &Pod{callID: testID, pod: &v1beta1.Pod{
		Identity: &v1beta1.PodIdentity{Name: "pod", Uid: "uid"},
		Facts:    &v1beta1.PodFacts{Namespace: namespace, Priority: proto.Int32(0)},
	}}
}

// Facts are all facts of the pod, to be changed directly where there is no method for a part. All labels and annotations are
// entries there.
func (p *Pod) Facts() *v1beta1.PodFacts { return p.pod.Facts }

// Named sets name and UID.
func (p *Pod) Named(name, uid string) *Pod {
	p.pod.Identity.Name, p.pod.Identity.Uid = name, uid
	return p
}

// Created sets metadata.creationTimestamp, in whole seconds.
func (p *Pod) Created(at time.Time) *Pod {
	p.pod.Identity.CreatedSeconds = proto.Int64(at.Unix())
	return p
}

// Snapshot sets the name of the state that a call for this pod is about.
func (p *Pod) Snapshot(name string) *Pod {
	p.snapshot = name
	return p
}

// Cluster sets the name of the cluster whose kube-scheduler calls for this pod.
func (p *Pod) Cluster(name string) *Pod {
	p.cluster = name
	return p
}

// CallID sets the id of a call for this pod, which is "test" otherwise.
func (p *Pod) CallID(id string) *Pod {
	p.callID = id
	return p
}

// Label adds a label.
func (p *Pod) Label(key, value string) *Pod {
	set(&p.pod.Facts.Labels, key, value)
	return p
}

// Annotation adds an annotation.
func (p *Pod) Annotation(key, value string) *Pod {
	set(&p.pod.Facts.Annotations, key, value)
	return p
}

// Toleration adds a toleration.
func (p *Pod) Toleration(toleration *policy.Toleration) *Pod {
	p.pod.Facts.Tolerations = append(p.pod.Facts.Tolerations, toleration)
	return p
}

// Owner sets a controller of this UID.
func (p *Pod) Owner(uid string) *Pod {
	p.pod.Facts.Owner = &v1beta1.OwnerReference{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "owner", Uid: uid}
	return p
}

// Priority sets spec.priority.
func (p *Pod) Priority(priority int32) *Pod {
	p.pod.Facts.Priority = proto.Int32(priority)
	return p
}

// PriorityClass sets spec.priorityClassName.
func (p *Pod) PriorityClass(name string) *Pod {
	p.pod.Facts.PriorityClassName = name
	return p
}

// Requests sets the pod's effective requests.
func (p *Pod) Requests(requests *policy.Resources) *Pod {
	p.pod.Facts.Requests = requests
	return p
}

// NodeAffinity sets spec.affinity.nodeAffinity.
func (p *Pod) NodeAffinity(affinity *policy.NodeAffinity) *Pod {
	p.pod.Facts.NodeAffinity = affinity
	return p
}

// RawJSON sets the object's JSON, for a verb that reads PodRawJSON.
func (p *Pod) RawJSON(json string) *Pod {
	p.pod.RawJson = []byte(json)
	return p
}

// Candidate is a node on which pods would be evicted.
type Candidate struct {
	node      *Node
	victims   []victim
	violating uint32
}

type victim struct {
	uid string
	pod *Pod
}

// NewCandidate is a node on which no pod would be evicted yet; a policy never gets such a call.
func NewCandidate(node *Node) *Candidate { return &Candidate{node: node} }

// Victim adds a victim after the others. Without a pod only the UID is known.
func (c *Candidate) Victim(uid string, pod *Pod) *Candidate {
	c.victims = append(c.victims, victim{uid: uid, pod: pod})
	return c
}

// PDBViolations sets how many of the evictions would violate a PodDisruptionBudget.
func (c *Candidate) PDBViolations(count uint32) *Candidate {
	c.violating = count
	return c
}

func set(all **v1beta1.MapValues, key, value string) {
	if *all == nil {
		*all = &v1beta1.MapValues{Entries: map[string]string{}}
	}
	(*all).Entries[key] = value
}

func clone[M proto.Message](message M) M { return proto.Clone(message).(M) }
