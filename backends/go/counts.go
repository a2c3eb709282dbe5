package policy

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"extender-gateway.io/policy/api/v1beta1"
)

// attribute is what a pod has of what pods are counted by.
type attribute struct {
	// namespace is empty unless pods are counted by a label.
	namespace string
	value     string
}

// of is what the pod has of it, and whether it has it.
func (b PodsBy) of(pod Pod) (attribute, bool) {
	var value string
	switch b.by {
	case v1beta1.PodCountBy_POD_COUNT_BY_OWNER:
		value = pod.Owner().GetUid()
	case v1beta1.PodCountBy_POD_COUNT_BY_NAMESPACE:
		value = pod.Namespace()
	case v1beta1.PodCountBy_POD_COUNT_BY_PRIORITY_CLASS_NAME:
		value = pod.PriorityClass()
	case v1beta1.PodCountBy_POD_COUNT_BY_LABEL:
		// The value of a label may be empty.
		value, has := pod.Label(b.label)
		return attribute{namespace: pod.Namespace(), value: value}, has
	}
	return attribute{value: value}, value != ""
}

// PodCount are pods on a node, or in a domain of the cluster, with one owner, one namespace, one value of a label, or one
// priority class.
type PodCount struct {
	by          PodsBy
	attribute   attribute
	pods        uint32
	terminating uint32
	requested   *Resources
	// declared says whether the sums of requests are.
	declared bool
	// topology is that of a domain; nil on a node.
	topology *sentTopology
}

// Namespace is the pods' namespace; empty if they are counted by owner or priority class.
func (c PodCount) Namespace() string {
	if c.by == ByNamespace() {
		return c.attribute.value
	}
	return c.attribute.namespace
}

// Value is the owner's UID, the namespace, the label's value, or the name of the priority class.
func (c PodCount) Value() string { return c.attribute.value }

// Pods is how many pods there are, with those that are being deleted.
func (c PodCount) Pods() uint32 { return c.pods }

// Terminating is how many of them are being deleted (metadata.deletionTimestamp). kube-scheduler does not count these for
// topology spread constraints.
func (c PodCount) Terminating() uint32 { return c.terminating }

// Requested are the sums of what the pods need, with those that are being deleted, in the units of [Pod.Requests]; nil if
// they request nothing. Pods is 0. Of extended resources, those on a node are the ones that the node reports in its
// status, and those in a domain the ones that the pod to be placed requests: others read as 0. It panics unless the count
// is declared with [Reads.PodsAndRequestsBy] or [Reads.PodsAndRequestsByTopology].
func (c PodCount) Requested() *Resources {
	if !c.declared {
		right := fmt.Sprintf("PodsAndRequestsBy(%v)", c.by)
		if c.topology != nil {
			right = fmt.Sprintf("PodsAndRequestsByTopology(%v)", c.topology.topology)
		}
		panic(undeclared("the sum of the requests of counted pods", right))
	}
	return c.requested
}

// PodsLike is how many pods on a node, or in a domain of the cluster, are like a pod. Of a node with pods of very many
// owners, or very many values of a label, the gateway leaves out some counts, and so it does of very many domains; the
// number is then known only within bounds. A limit takes AtMost, a requirement takes AtLeast: neither then takes an
// unknown number for 0. Both include the pods that are being deleted.
type PodsLike struct {
	count PodCount
	// omitted is the most pods of a count that is left out; 0 if it is not left out.
	omitted uint32
}

// AtMost is the most pods that there can be.
func (l PodsLike) AtMost() uint32 { return max(l.count.pods, l.omitted) }

// AtLeast is the fewest pods that there can be.
func (l PodsLike) AtLeast() uint32 { return l.count.pods }

// Counted is the count; false if it is left out.
func (l PodsLike) Counted() (PodCount, bool) { return l.count, l.omitted == 0 }

func countOnNode(count *v1beta1.PodCount, sent sentCount) PodCount {
	return PodCount{
		by:          sent.by,
		attribute:   attribute{namespace: count.GetNamespace(), value: count.GetValue()},
		pods:        count.GetPods(),
		terminating: count.GetTerminating(),
		requested:   count.GetRequested(),
		declared:    sent.requests,
	}
}

// likeOnNode looks up a count; counts were checked to ascend by namespace and value.
func likeOnNode(counts *v1beta1.PodCounts, sent sentCount, wanted attribute) PodsLike {
	position, found := slices.BinarySearchFunc(counts.GetCounts(), wanted, func(count *v1beta1.PodCount, wanted attribute) int {
		return compareCount(count.GetNamespace(), count.GetValue(), wanted.namespace, wanted.value)
	})
	if found {
		return PodsLike{count: countOnNode(counts.GetCounts()[position], sent)}
	}
	none := PodCount{by: sent.by, attribute: wanted, declared: sent.requests}
	return PodsLike{count: none, omitted: counts.GetOmittedPods()}
}

func compareCount(namespace, value, otherNamespace, otherValue string) int {
	return cmp.Or(strings.Compare(namespace, otherNamespace), strings.Compare(value, otherValue))
}

// Domains are the pods in the cluster that are like the pod to be placed, added up by the value of a label of nodes: one
// domain for each value. Without a topology key, the cluster is one domain, with an empty value.
type Domains struct {
	sent      *sentTopology
	attribute attribute
	counts    *v1beta1.TopologyCounts
	// unlisted is the most pods in a domain that is not listed.
	unlisted uint32
}

// newDomains knows that the gateway leaves out the domains with the fewest pods.
func newDomains(sent *sentTopology, of attribute, counts *v1beta1.TopologyCounts) Domains {
	unlisted := counts.GetOmittedPods()
	if unlisted > 0 {
		for _, domain := range counts.GetDomains() {
			unlisted = min(unlisted, domain.GetPods())
		}
	}
	return Domains{sent: sent, attribute: of, counts: counts, unlisted: unlisted}
}

// Of are the pods in the domain of this node, on all its nodes. False if the node lacks the label, and so is in no domain.
func (d Domains) Of(node Node) (PodsLike, bool) {
	if d.sent.topology.key == "" {
		return d.at(""), true
	}
	value, has := node.at(d.sent.label)
	if !has {
		return PodsLike{}, false
	}
	return d.at(value), true
}

// All are the domains with at least one such pod, in ascending order of their values, the values of the label. Not those
// of OmittedPods. The namespace and the value of a count are those of the pods.
func (d Domains) All() iter.Seq2[string, PodCount] {
	return func(yield func(string, PodCount) bool) {
		for _, domain := range d.counts.GetDomains() {
			if !yield(domain.GetValue(), d.count(domain)) {
				return
			}
		}
	}
}

// OmittedPods is how many pods are in domains that are left out. The gateway sends at most 4,096 domains, those with the
// most pods: usually 0.
func (d Domains) OmittedPods() uint32 { return d.counts.GetOmittedPods() }

func (d Domains) at(value string) PodsLike {
	domains := d.counts.GetDomains()
	position, found := slices.BinarySearchFunc(domains, value, func(domain *v1beta1.DomainCount, value string) int {
		return strings.Compare(domain.GetValue(), value)
	})
	if found {
		return PodsLike{count: d.count(domains[position])}
	}
	return PodsLike{count: d.count(nil), omitted: d.unlisted}
}

func (d Domains) count(domain *v1beta1.DomainCount) PodCount {
	return PodCount{
		by:          d.sent.topology.by,
		attribute:   d.attribute,
		pods:        domain.GetPods(),
		terminating: domain.GetTerminating(),
		requested:   domain.GetRequested(),
		declared:    d.sent.requests,
		topology:    d.sent,
	}
}
