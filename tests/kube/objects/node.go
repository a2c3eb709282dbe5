package objects

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels that policies use.
const (
	RackLabel         = "topology.acme.io/rack"
	TenantLabel       = "acme.io/tenant"
	ZoneLabel         = corev1.LabelTopologyZone
	InstanceTypeLabel = corev1.LabelInstanceTypeStable
)

// NodeOption changes a node before it is created.
type NodeOption func(*corev1.Node)

// Nodes makes count nodes. Racks, tenants, zones and instance types alternate with different periods (7, 4, 3 and
// 5), so that none of them follows from another.
func Nodes(count int, options ...NodeOption) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = node(i)
		for _, option := range options {
			option(nodes[i])
		}
	}
	return nodes
}

// With sets one label of a node.
func With(key, value string) NodeOption {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// WithImages gives a node the list of images that a kubelet reports; 20 make the object about 14 kB of JSON.
func WithImages(count int) NodeOption {
	return func(n *corev1.Node) { n.Status.Images = images(count) }
}

func node(i int) *corev1.Node {
	name := nodeName(i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: nodeLabels(i, name), Annotations: nodeAnnotations(i)},
		Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/i-%016d", zone(i), i)},
		Status: corev1.NodeStatus{
			Capacity:    resources("8", "32Gi"),
			Allocatable: resources("7910m", "31Gi"),
			Conditions:  conditions(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address(i)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: nodeInfo(i),
			Images:   images(2),
		},
	}
}

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-16-%d-%d.eu-west-1.compute.internal", i/256, i%256)
}

func address(i int) string { return fmt.Sprintf("10.16.%d.%d", i/256, i%256) }

func zone(i int) string { return "eu-west-1" + string("abc"[i%3]) }

var instanceTypes = [...]string{"m6i.2xlarge", "c7g.16xlarge", "r6i.4xlarge", "m7g.4xlarge", "i4i.2xlarge"}

func nodeLabels(i int, name string) map[string]string {
	group := "general-" + strconv.Itoa(i%4)
	return map[string]string{
		TenantLabel:                       "tenant-" + strconv.Itoa(i%4),
		RackLabel:                         "rack-" + strconv.Itoa(i%7),
		ZoneLabel:                         zone(i),
		InstanceTypeLabel:                 instanceTypes[i%len(instanceTypes)],
		corev1.LabelTopologyRegion:        "eu-west-1",
		corev1.LabelHostname:              name,
		corev1.LabelArchStable:            "amd64",
		corev1.LabelOSStable:              "linux",
		"node-role.kubernetes.io/worker":  "",
		"eks.amazonaws.com/capacityType":  "ON_DEMAND",
		"eks.amazonaws.com/nodegroup":     group,
		"karpenter.sh/nodepool":           group,
		"node.kubernetes.io/disk-gigabit": strconv.Itoa(10 * (1 + i%5)),
	}
}

func nodeAnnotations(i int) map[string]string {
	return map[string]string{
		"alpha.kubernetes.io/provided-node-ip": address(i),
		"csi.volume.kubernetes.io/nodeid":      fmt.Sprintf(`{"ebs.csi.aws.com":"i-%016d","efs.csi.aws.com":"i-%016d"}`, i, i),
		// Go's JSON writes these characters as \u003e, \u0026 and \u003c: an answer must keep that.
		"node.acme.io/boot-report":                               "kernel->6.1 & cgroup v2 <ok>",
		"node.alpha.kubernetes.io/ttl":                           "0",
		"volumes.kubernetes.io/controller-managed-attach-detach": "true",
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(cpu),
		corev1.ResourceMemory:           resource.MustParse(memory),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}
