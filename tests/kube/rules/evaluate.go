package rules

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Filter returns the reason of the first rule that refuses the node, or "" if none does.
func (r *Rules) Filter(pod *corev1.Pod, node *corev1.Node) string {
	for i := range r.Rules {
		rule := &r.Rules[i]
		if rule.Reason != "" && rule.isFor(pod) && !all(rule.Require, node.Labels) {
			return rule.Reason
		}
	}
	return ""
}

// Score adds up the scores of the rules that prefer the node.
func (r *Rules) Score(pod *corev1.Pod, node *corev1.Node) int64 {
	var sum int64
	for i := range r.Rules {
		rule := &r.Rules[i]
		if rule.Score != nil && rule.isFor(pod) && all(rule.Prefer, node.Labels) {
			sum += *rule.Score
		}
	}
	return sum
}

func (r *Rule) isFor(pod *corev1.Pod) bool {
	if r.Pods == nil {
		return true
	}
	if r.Pods.Namespaces != nil && !slices.Contains(r.Pods.Namespaces, pod.Namespace) {
		return false
	}
	return all(r.Pods.Labels, pod.Labels)
}

func all(requirements []Requirement, labels map[string]string) bool {
	for i := range requirements {
		if !requirements[i].holds(labels) {
			return false
		}
	}
	return true
}

// holds decides as Kubernetes' own node selectors do: without the label only notIn and "exists: false" hold, and a
// value that is not an integer is neither greater nor less.
func (q *Requirement) holds(labels map[string]string) bool {
	value, present := labels[q.Key]
	switch {
	case q.Exists != nil:
		return present == *q.Exists
	case q.NotIn != nil:
		return !present || !slices.Contains(q.NotIn, value)
	case !present:
		return false
	case q.Equals != nil:
		return value == *q.Equals
	case q.In != nil:
		return slices.Contains(q.In, value)
	default:
		return q.compares(value)
	}
}

func (q *Requirement) compares(value string) bool {
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return false
	}
	if q.GreaterThan != nil {
		return number > *q.GreaterThan
	}
	return number < *q.LessThan
}
