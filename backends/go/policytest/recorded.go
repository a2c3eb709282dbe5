package policytest

import (
	"errors"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

// Recorded are the pod and the nodes of a file that extender-gateway try --objects writes from Kubernetes YAML. They have all parts,
// labels and annotations, and like all test objects are reduced to what the policy declares. Counts of pods are none of them: add
// pods with [Node.Running].
func Recorded(path string) (*Pod, []*Node, error) {
	encoded, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	pod, nodes, err := recorded(encoded)
	if err != nil {
		return nil, nil, fmt.Errorf("%s has no recorded objects: %w; write it again with extender-gateway try --objects", path, err)
	}
	return pod, nodes, nil
}

func recorded(encoded []byte) (*Pod, []*Node, error) {
	var request v1beta1.FilterRequest
	if err := proto.Unmarshal(encoded, &request); err != nil {
		return nil, nil, fmt.Errorf("it cannot be decoded: %w", err)
	}
	rows := request.GetNodes().GetRows().GetRows()
	switch {
	case request.GetPod().GetFacts() == nil || request.GetPod().GetIdentity() == nil:
		return nil, nil, errors.New("the pod, its identity or its facts are missing")
	case len(rows) == 0 || uint32(len(rows)) != request.GetNodes().GetCount():
		return nil, nil, fmt.Errorf("it has %d of %d nodes", len(rows), request.GetNodes().GetCount())
	}
	pod := &Pod{callID: testID, pod: request.GetPod()}
	pod.pod.TopologyCounts = nil
	nodes := make([]*Node, len(rows))
	for position, row := range rows {
		if row.GetName() == "" || row.GetFacts() == nil {
			return nil, nil, fmt.Errorf("node %d has no name or no facts", position)
		}
		row.PodCounts = nil
		nodes[position] = &Node{row: row}
	}
	return pod, nodes, nil
}
