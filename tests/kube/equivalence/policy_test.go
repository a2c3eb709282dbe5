package equivalence

import (
	"errors"
	"slices"

	policyapi "extender-gateway.io/policy/api/v1beta1"
)

// policy is one policy as a table. Both sides answer with its methods.
type policy struct {
	name    string
	filters bool
	// ignorable is kube-scheduler's name for the failure policy Ignore.
	ignorable bool
	scores    bool
	weight    int64
	// managed policies are called only for pods that request the managed resource.
	managed bool
	// wholeSet makes verdicts and scores depend on the number of nodes in the request.
	wholeSet bool
	// tables have the opinion of a node by its name, for an even and an odd number of nodes. A policy that judges
	// nodes one by one has the same table twice.
	tables [2]map[string]opinion
	// victims has by UID whether a pod may be evicted, empties whether a node is kept although none of its pods
	// may.
	victims map[string]bool
	empties bool

	filterFailure, scoreFailure, preemptFailure failure
	// down policies accept no connection.
	down bool
	wire wire
}

// wire are the options of a gRPC backend only.
type wire struct {
	told told
	// scoresWithFilter returns scores with the answer to a filter call.
	scoresWithFilter bool
}

// told is in what a backend finds the name of a node.
type told int

const (
	byName told = iota
	// byLabel reads everything, and with it the label that repeats the name.
	byLabel
	byJSON
)

// reads declares this.
func (t told) reads() *policyapi.Reads {
	switch t {
	case byLabel:
		return &policyapi.Reads{Pod: &policyapi.PodReads{Everything: true}, Node: &policyapi.NodeReads{Everything: true}}
	case byJSON:
		return ofNodes(policyapi.NodePart_NODE_PART_RAW_JSON)
	default:
		return ofNodes(policyapi.NodePart_NODE_PART_NAME)
	}
}

func ofNodes(part policyapi.NodePart) *policyapi.Reads {
	return &policyapi.Reads{Node: &policyapi.NodeReads{Parts: []policyapi.NodePart{part}}}
}

// opinion is a policy's answer about one node.
type opinion struct {
	// reason is why the node is refused, "" if it is not.
	reason string
	// mayHelp declares that preemption could change that.
	mayHelp bool
	score   int32
}

// failure is when and how a verb fails. It depends only on the nodes of the request.
type failure struct {
	kind failureKind
	// at fails only calls about this node, "" every call.
	at string
}

type failureKind int

const (
	// never is the usual case.
	never failureKind = iota
	// refused is a status that reports a failure.
	refused
	// nonsense is a success with an invalid answer.
	nonsense
)

var (
	errRefused  = errors.New("the policy has failed")
	errNonsense = errors.New("the answer is nonsense")
)

func (f failure) of(nodes []string) error {
	switch {
	case f.kind == never || f.at != "" && !slices.Contains(nodes, f.at):
		return nil
	case f.kind == refused:
		return errRefused
	default:
		return errNonsense
	}
}

// filter gives an opinion about each of the nodes.
func (p *policy) filter(nodes []string) ([]opinion, error) {
	return p.opinions(nodes), p.filterFailure.of(nodes)
}

// score gives each of the nodes a score.
func (p *policy) score(nodes []string) ([]int32, error) {
	scores := make([]int32, len(nodes))
	for i, opinion := range p.opinions(nodes) {
		scores[i] = opinion.score
	}
	return scores, p.scoreFailure.of(nodes)
}

func (p *policy) opinions(nodes []string) []opinion {
	table := p.tables[len(nodes)%2]
	opinions := make([]opinion, len(nodes))
	for i, node := range nodes {
		opinions[i] = table[node]
	}
	return opinions
}

// evict returns which of a node's victims, by position, may be evicted, and whether the node is kept.
func (p *policy) evict(uids []string) (kept []int, keep bool) {
	for i, uid := range uids {
		if p.victims[uid] {
			kept = append(kept, i)
		}
	}
	return kept, len(kept) > 0 || p.empties
}
