package policytest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
)

// What the policy API forbids a policy to answer, and a gateway clamps, cleans or notices by chance.

// names are those of verbs in texts.
var names = map[v1beta1.Verb]string{
	v1beta1.Verb_VERB_FILTER: "filter", v1beta1.Verb_VERB_SCORE: "score", v1beta1.Verb_VERB_BEFORE_FILTER: "beforeFilter",
	v1beta1.Verb_VERB_BEFORE_FILTER_NODES: "beforeFilterNodes", v1beta1.Verb_VERB_BEFORE_SCORE: "beforeScore",
}

// perNode asks about each node; a pure verb twice, the second time with each node at another position.
func perNode[A any](
	source policy.Source, verb v1beta1.Verb, nodes []*Node, equal func(A, A) bool, ask func([]*Node) ([]A, error),
) ([]A, error) {
	first, err := ask(nodes)
	if err != nil || !isPure(source, verb) {
		return first, err
	}
	last := len(nodes) - 1
	again, err := ask(append([]*Node{nodes[last]}, nodes[:last]...))
	if err != nil {
		return nil, err
	}
	for position, node := range nodes {
		if !equal(first[position], again[(position+1)%len(nodes)]) {
			return nil, impure(verb, fmt.Sprintf("node %q", node.row.GetName()))
		}
	}
	return first, nil
}

func impure(verb v1beta1.Verb, about string) error {
	return fmt.Errorf("%s is declared pure and gave another answer about %s when it was asked again; a pure verb depends on the pod, the "+
		"node and the args alone: declare it without pure, or name in the revision what it depends on", names[verb], about)
}

func isPure(source policy.Source, verb v1beta1.Verb) bool {
	return declared(source, verb).GetEffects() == v1beta1.Effects_EFFECTS_PURE
}

func declared(source policy.Source, verb v1beta1.Verb) *v1beta1.VerbInfo {
	info, _ := Info(source)
	return listed(info, verb)
}

// listed is a verb of a handshake; nil if it is not declared.
func listed(info *v1beta1.GetInfoResponse, verb v1beta1.Verb) *v1beta1.VerbInfo {
	for _, listed := range info.GetVerbs() {
		if listed.GetVerb() == verb {
			return listed
		}
	}
	return nil
}

func scoreMistake(source policy.Source, nodes []*Node, scores []int32) error {
	scale := declared(source, v1beta1.Verb_VERB_SCORE)
	for position, score := range scores {
		if score == policy.NoOpinion {
			continue
		}
		if least, largest := scale.GetScoreMin(), scale.GetScoreMax(); scale.ScoreMin != nil && (score < least || score > largest) {
			return fmt.Errorf("score returned %d for node %q; the declared scale is %d to %d: clamp the score, or declare another scale",
				score, nodes[position].row.GetName(), least, largest)
		}
	}
	return nil
}

// changeMistake is for a change that the hook does not declare.
func changeMistake(hook *v1beta1.VerbInfo, response *v1beta1.ChangeResponse) error {
	changed := changedParts("POD_", response.GetPod())
	for _, node := range response.GetNodes() {
		changed = append(changed, changedParts("NODE_", node)...)
	}
	for _, part := range changed {
		if !slices.Contains(hook.GetChanges(), v1beta1.ChangedPart(v1beta1.ChangedPart_value["CHANGED_PART_"+part])) {
			constant := "policy.Changed"
			for word := range strings.SplitSeq(part, "_") {
				constant += word[:1] + strings.ToLower(word[1:])
			}
			return fmt.Errorf("%s changes what it does not declare; add %s to its Changes", names[hook.GetVerb()], constant)
		}
	}
	return nil
}

// verbs are the beginnings of fields that say how a part changes; pod_affinity alone begins with the object.
var verbs = regexp.MustCompile("^(set|remove|add|pod)_")

// changedParts are the parts that a change names. A part has the name of its fields, but for holds.
func changedParts(object string, change proto.Message) []string {
	var parts []string
	change.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		switch name := string(field.Name()); name {
		case "positions", "reason":
		case "holds":
			parts = append(parts, object+"USAGE")
		default:
			parts = append(parts, object+strings.ToUpper(verbs.ReplaceAllString(name, "")))
		}
		return true
	})
	return parts
}

// number is one that is no part of a name such as rack-1.
var number = regexp.MustCompile(`(^|[^\pL\pN_./:-])\pN+([.,]\pN+)*`)

func reasonMistake(rejected []Rejected) error {
	known := map[string]Rejected{}
	for _, r := range rejected {
		pattern := number.ReplaceAllString(r.Reason, "${1}0")
		other, seen := known[pattern]
		switch {
		case strings.TrimSpace(r.Reason) == "":
			return fmt.Errorf("filter rejects node %q without a reason; say in a constant text what is wrong with the node", r.Node)
		case strings.ContainsFunc(r.Reason, unicode.IsControl):
			return fmt.Errorf("filter rejects node %q with the reason %q, which has control characters; write one line of text", r.Node, r.Reason)
		case seen && other.Reason != r.Reason:
			return fmt.Errorf("filter rejects node %q with the reason %q and node %q with %q; leave numbers out of reasons: "+
				"each new text makes kube-scheduler retry the pod", other.Node, other.Reason, r.Node, r.Reason)
		}
		known[pattern] = r
	}
	return nil
}
