package policies

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// The policies accept the args that the plugins accept, and reject those that they reject with INVALID_ARGUMENT.
func TestArgsAreRightOrWrongForBoth(t *testing.T) {
	for _, c := range []struct {
		policy string
		make   factory
		kind   string
		args   []string
	}{
		{"node-resources", noderesources.NewFit, fitArgs, []string{
			`{}`,
			`{"ignoredResources": ["example.com/gpu", "cpu"], "ignoredResourceGroups": ["example.com"]}`,
			`{"ignoredResources": ["a b"]}`,
			`{"ignoredResources": [""]}`,
			`{"ignoredResourceGroups": ["example.com/gpu"]}`,
			`{"unknown": 1}`,
			`{"scoringStrategy": {}}`,
			`{"scoringStrategy": {"type": "Most"}}`,
			`{"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 100}]}}`,
			`{"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}}`,
			`{"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": -1}]}}`,
			`{"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": {"shape": []}}}`,
			`{"scoringStrategy": {"type": "RequestedToCapacityRatio"}}`,
			`{"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": []}}}`,
			`{"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 50, "score": 10}]}}}`,
			`{"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 50, "score": 11}]}}}`,
			`{"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 101, "score": 1}]}}}`,
			`{"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}]}}}`,
		}},
		{"node-affinity", nodeaffinity.New, affinityArgs, []string{
			`{}`,
			`{"addedAffinity": {}}`,
			`{"addedAffinity": {"required": {}}}`,
			`{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}`,
			`{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Is"}]}]}}}`,
			`{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}]}}}`,
			`{"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["x"]}]}}]}}`,
			`{"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["5"]}]}}]}}`,
		}},
	} {
		t.Run(c.policy, func(t *testing.T) {
			program := start(t, c.policy)
			for _, args := range c.args {
				_, refused := configured(t.Context(), c.make, c.kind, args)
				_, err := program.info(t.Context(), args)
				want := codes.OK
				if refused != nil {
					want = codes.InvalidArgument
				}
				if status.Code(err) != want {
					t.Errorf("%s: the policy: %v, the plugin: %v", args, err, refused)
				}
			}
		})
	}
}
