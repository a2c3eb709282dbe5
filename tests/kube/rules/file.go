package rules

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// Rules is the content of a rule file, in the file's order.
type Rules struct {
	Rules []Rule `json:"rules"`
}

// Rule either refuses nodes (Require and Reason) or scores them (Prefer and Score).
type Rule struct {
	// Name is for messages about the file.
	Name string `json:"name,omitempty"`
	// Pods selects the pods that the rule is for; nil means all.
	Pods *PodSelector `json:"pods,omitempty"`
	// Require refuses a node for which any requirement does not hold.
	Require []Requirement `json:"require,omitempty"`
	// Reason explains to people why a node was refused.
	Reason string `json:"reason,omitempty"`
	// Prefer gives Score to a node for which all requirements hold.
	Prefer []Requirement `json:"prefer,omitempty"`
	Score  *int64        `json:"score,omitempty"`
}

// PodSelector selects pods; all parts that are set must hold.
type PodSelector struct {
	Namespaces []string      `json:"namespaces,omitempty"`
	Labels     []Requirement `json:"labels,omitempty"`
}

// Requirement is a label's key and exactly one condition on its value.
type Requirement struct {
	Key         string   `json:"key"`
	Equals      *string  `json:"equals,omitempty"`
	In          []string `json:"in,omitempty"`
	NotIn       []string `json:"notIn,omitempty"`
	Exists      *bool    `json:"exists,omitempty"`
	GreaterThan *int64   `json:"greaterThan,omitempty"`
	LessThan    *int64   `json:"lessThan,omitempty"`
}

// Load reads a rule file. An error names every mistake with its place in the file.
func Load(file string) (*Rules, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rules, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return rules, nil
}

// Parse reads the text of a rule file.
func Parse(text []byte) (*Rules, error) {
	var rules Rules
	if err := yaml.UnmarshalStrict(text, &rules); err != nil {
		return nil, err
	}
	return &rules, nil
}
