// Rejects nodes of closed zones. The operator's args name the label of the zone and the closed zones:
// {label: topology.kubernetes.io/zone, closed: [eu-1a]}.
package main

import (
	"slices"

	"extender-gateway.io/policy"
)

// args are the operator's.
type args struct {
	Label  string   `json:"label"`
	Closed []string `json:"closed"`
}

func closedZones(args args) (policy.Policy, error) {
	// Only this label is sent, and pods for which it is the same share cached answers.
	var reads policy.Reads
	zone := reads.NodeLabel(args.Label)
	filter := func(_ policy.Pod, node policy.Node) policy.Verdict {
		if value, has := node.Get(zone); has && slices.Contains(args.Closed, value) {
			return policy.Reject("zone is closed").Unresolvable()
		}
		return policy.Accept()
	}
	return policy.Policy{
		Name: "{{name}}", Version: "0.1.0",
		Filter: &policy.Filter{Pure: true, Reads: &reads, Node: filter},
	}, nil
}

func backend() *policy.Backend { return policy.Configured(args{}, closedZones) }

func main() { policy.Main(backend()) }
