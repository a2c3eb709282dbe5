// Package policy is the SDK for policy backends of the extender gateway in Go.
//
// A policy decides on which nodes a pod may run, how good the others are for it, which pods may be evicted, or binds the
// pod. It is a [Policy]: what it is called, and one function for each verb that it serves, beside the declaration of what
// that function reads. [Main] makes a program of it:
//
//	func NoArm() policy.Policy {
//		var reads policy.Reads
//		arch := reads.NodeLabel("kubernetes.io/arch")
//		return policy.Policy{
//			Name:    "no-arm",
//			Version: "1.0.0",
//			Filter: &policy.Filter{Pure: true, Reads: &reads, Node: func(_ policy.Pod, node policy.Node) policy.Verdict {
//				if value, _ := node.Get(arch); value == "arm64" {
//					return policy.Reject("arm64 nodes are not in use yet").Unresolvable()
//				}
//				return policy.Accept()
//			}},
//		}
//	}
//
//	func main() { policy.Main(NoArm()) }
//
// The SDK does the rest of the contract (proto/SPEC.md): the handshake, the checks of requests, the node table, health,
// reflection, TLS, limits, status codes and shutdown. Hooks, such as [BeforeFilter], change what the backends of a call are
// told about the pod and the nodes. A [Page] shows people a part of the policy's internal state. An [Outcome] says how an attempt
// to place a pod ended. Package policytest tries a policy without a server. Modules of their own:
// extender-gateway.io/policy/otlp sends spans of traced calls to a collector, extender-gateway.io/policy/metrics serves metrics to
// Prometheus, extender-gateway.io/policy/k8s reads raw objects as corev1.Node and corev1.Pod, and
// extender-gateway.io/policy/controllers runs controllers in one replica at a time.
package policy
