// Package k8s reads the raw objects of a call as the types of k8s.io/api. It is a module of its own, so that a policy that
// does not use it has no dependency on Kubernetes.
package k8s

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/policy"
)

// ErrNotSent says that the object's JSON is not part of the call, although the verb declares to read it.
var ErrNotSent = errors.New("the object's JSON is not sent, because the gateway does not know it; in a test, set it with RawJSON")

// Node is the node of a verb that reads policy.NodeRawJSON. It is decoded with each call of this function: call it once.
func Node(node policy.Node) (*corev1.Node, error) { return decode[corev1.Node](node.RawJSON()) }

// Pod is the pod, or a victim, of a verb that reads policy.PodRawJSON. It is decoded with each call of this function: call it
// once, in a function that gets all nodes.
func Pod(pod policy.Pod) (*corev1.Pod, error) { return decode[corev1.Pod](pod.RawJSON()) }

func decode[O any](raw []byte) (*O, error) {
	if len(raw) == 0 {
		return nil, ErrNotSent
	}
	object := new(O)
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, fmt.Errorf("the object's JSON cannot be read: %w", err)
	}
	return object, nil
}
