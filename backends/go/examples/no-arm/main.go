// No-arm refuses arm64 nodes.
package main

import "extender-gateway.io/policy"

const arch = "kubernetes.io/arch"

func noArm() policy.Policy {
	var reads policy.Reads
	reads.NodeLabel(arch)
	filter := func(_ policy.Pod, node policy.Node) policy.Verdict {
		if value, _ := node.Label(arch); value == "arm64" {
			return policy.Reject("arm64 nodes are not in use yet").Unresolvable()
		}
		return policy.Accept()
	}
	return policy.Policy{Name: "no-arm", Version: "1.0.0", Filter: &policy.Filter{Pure: true, Reads: &reads, Node: filter}}
}

func main() { policy.Main(noArm()) }
