package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
	"extender-gateway.io/tests/kube/rules"
)

const (
	// benchPolicy is the program of the gateway's policies.
	benchPolicy = "bench-policy"
	// labelScore is the example of the SDK for Python that decides the same.
	labelScore = "label-score"
)

// policy refuses nodes that have a label and gives points to nodes that have others. Plain extenders and naive
// backends get it as a file of rules, the gateway's policies as arguments: all decide the same.
type policy struct {
	name   string
	refuse label
	prefer map[label]int64
	// file has the rules.
	file string
}

type label struct{ key, value string }

func (l label) String() string { return l.key + "=" + l.value }

// policies are the first count ones. The first three refuse half of the nodes together, each further one a single
// node, so that eight of them leave nodes to place pods on.
func policies(count int) []policy {
	refuse := []label{
		{objects.RackLabel, "rack-2"},
		{objects.TenantLabel, "tenant-3"},
		{objects.InstanceTypeLabel, "i4i.2xlarge"},
	}
	for _, node := range objects.Nodes(max(0, count-len(refuse))) {
		refuse = append(refuse, label{corev1.LabelHostname, node.Name})
	}
	list := make([]policy, count)
	for i := range list {
		list[i] = policy{
			name: "policy-" + strconv.Itoa(i), refuse: refuse[i],
			prefer: map[label]int64{
				{objects.ZoneLabel, "eu-west-1" + string("abc"[i%3])}: 3,
				{objects.RackLabel, "rack-" + strconv.Itoa(i%7)}:      5,
			},
		}
	}
	return list
}

// rules are the policy as a plain extender reads it.
func (p policy) rules() rules.Rules {
	list := []rules.Rule{{
		Require: []rules.Requirement{{Key: p.refuse.key, NotIn: []string{p.refuse.value}}},
		Reason:  fmt.Sprintf("label %s is %s", p.refuse.key, p.refuse.value),
	}}
	for l, score := range p.prefer {
		list = append(list, rules.Rule{Prefer: []rules.Requirement{{Key: l.key, Equals: &l.value}}, Score: &score})
	}
	return rules.Rules{Rules: list}
}

// writtenTo is the policy with its rules in a file of that folder.
func (p policy) writtenTo(dir string) (policy, error) {
	text, err := yaml.Marshal(p.rules())
	if err != nil {
		return p, err
	}
	p.file = filepath.Join(dir, p.name+".yaml")
	return p, os.WriteFile(p.file, text, 0o644)
}

// arguments are the policy as bench-policy reads it.
func (p policy) arguments() []string {
	args := []string{"--name", p.name, "--refuse", p.refuse.String()}
	for l, score := range p.prefer {
		args = append(args, "--prefer", fmt.Sprintf("%s:%d", l, score))
	}
	return args
}

// args are the policy as label-score reads it.
func (p policy) args(declared string) map[string]any {
	prefer := []map[string]any{}
	for l, score := range p.prefer {
		prefer = append(prefer, map[string]any{"key": l.key, "value": l.value, "score": score})
	}
	return map[string]any{
		"refuse":  map[string]any{"key": p.refuse.key, "value": p.refuse.value},
		"prefer":  prefer,
		"declare": map[string]string{"pure": "Pure", "node": "PerNode", "set": "WholeSet"}[declared],
	}
}

// startPolicy starts a policy of the gateway.
func startPolicy(ctx context.Context, dir string, p policy, c contender) (*process.Server, error) {
	path, err := c.policyProgram()
	if err != nil {
		return nil, err
	}
	args := []string{"--address", "127.0.0.1:0"}
	if c.language == rust {
		args = append(args, p.arguments()...)
		args = append(args, "--declare", c.declared, "--reads", c.reads, "--table", c.table)
	}
	return process.Serve(ctx, process.Program{Name: p.name, Dir: dir, Path: path, Args: args}, "listening on")
}

func (c contender) policyProgram() (string, error) {
	if c.language == python {
		return product.Example(python, labelScore)
	}
	return product.Binary(benchPolicy)
}
