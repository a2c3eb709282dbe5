// Package policytest tries a policy on a pod and some nodes without a server, through the same code that answers calls.
//
//	func TestArmIsRefused(t *testing.T) {
//		old := policytest.NewNode("old").Label("kubernetes.io/arch", "amd64")
//		new := policytest.NewNode("new").Label("kubernetes.io/arch", "arm64")
//		rejected, err := policytest.Filter(NoArm(), policytest.NewPod("shop"), old, new)
//		want := []policytest.Rejected{{Node: "new", Reason: "arm64 nodes are not in use yet"}}
//		if err != nil || !slices.EqualFunc(rejected, want, policytest.Rejected.Is) {
//			t.Errorf("rejected %v, %v; want %v", rejected, err, want)
//		}
//	}
//
// A verb gets what the gateway would send for its declaration, so a test fails if the policy reads anything else.
// [Everything] is the same policy with nothing left out: if both give the same answers about random pods and nodes, the
// declaration is complete. [BeforeFilter], [BeforeFilterNodes] and [BeforeScore] are what hooks change, [Introspect] is
// what the policy shows people, [Recorded] are a pod and nodes from Kubernetes YAML, and [Observe] tells the policy how attempts to
// place pods ended.
package policytest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/intest"
)

// Rejected is a node on which the pod may not run.
type Rejected struct {
	Node         string
	Reason       string
	Rule         string
	Unresolvable bool
	// RetryAfter is 0, too, if the verdict has none.
	RetryAfter time.Duration
}

// Is says whether this is the rejection that a test wants, which may leave out Rule, Unresolvable and RetryAfter.
func (r Rejected) Is(wanted Rejected) bool {
	wanted.Unresolvable = wanted.Unresolvable || r.Unresolvable
	wanted.Rule = cmp.Or(wanted.Rule, r.Rule)
	wanted.RetryAfter = cmp.Or(wanted.RetryAfter, r.RetryAfter)
	return r == wanted
}

// Kept is a node that stays a candidate, with the UIDs of the pods that are evicted there.
type Kept struct {
	Node    string
	Victims []string
}

// Info is the answer to the handshake.
func Info(source policy.Source) (*v1beta1.GetInfoResponse, error) {
	service, err := serviceOf(source)
	if err != nil {
		return nil, err
	}
	return service.GetInfo(context.Background(), &v1beta1.GetInfoRequest{})
}

// WithArgs is the policy that [policy.Configured] builds from these args, as JSON. The error has the text that the gateway
// would log.
func WithArgs(backend *policy.Backend, json string) (*policy.Backend, error) {
	return backend.WithArgs([]byte(json))
}

// Everything is the policy with other declarations of what it reads: all that each verb and hook may read, with the counts of
// pods that it declares itself.
func Everything(declared policy.Policy) policy.Policy {
	declared.Filter = changed(declared.Filter, func(f *policy.Filter) { f.Reads = ofNodes(ofPods(f.Reads, f.Pure), f.Pure) })
	declared.Score = changed(declared.Score, func(s *policy.Score) { s.Reads = ofNodes(ofPods(s.Reads, s.Pure), s.Pure) })
	declared.Preempt = changed(declared.Preempt, func(p *policy.Preempt) { p.Reads = ofNodes(ofPods(p.Reads, false), false) })
	declared.Bind = changed(declared.Bind, func(b *policy.Bind) { b.Reads = ofPods(b.Reads, false) })
	declared.BeforeFilter = changed(declared.BeforeFilter, func(b *policy.BeforeFilter) { b.Reads = ofPods(b.Reads, b.Pure) })
	declared.BeforeFilterNodes = changed(declared.BeforeFilterNodes, func(b *policy.BeforeFilterNodes) {
		b.Reads = ofNodes(ofPods(b.Reads, b.Pure), b.Pure)
	})
	declared.BeforeScore = changed(declared.BeforeScore, func(b *policy.BeforeScore) {
		b.Reads = ofNodes(ofPods(b.Reads, b.Pure), b.Pure)
	})
	if current := declared.Current; current != nil {
		declared.Current = func() *policy.Policy {
			return changed(current(), func(newer *policy.Policy) { *newer = Everything(*newer) })
		}
	}
	return declared
}

// changed is a changed copy of a verb or a hook, if it is declared.
func changed[V any](declared *V, change func(*V)) *V {
	if declared == nil {
		return nil
	}
	copied := *declared
	change(&copied)
	return &copied
}

// ofPods is everything that a verb may read of pods.
func ofPods(reads *policy.Reads, pure bool) *policy.Reads {
	all := reads.AndEverything()
	all.PodAnnotations("")
	if !pure {
		all.Pod(policy.PodIdentity, policy.PodRawJSON)
	}
	return all
}

// ofNodes adds everything that a verb may read of nodes.
func ofNodes(all *policy.Reads, pure bool) *policy.Reads {
	all.Node(policy.NodeUsage, policy.NodeNominated, policy.NodeImages)
	all.NodeAnnotations("")
	if !pure {
		all.Node(policy.NodeRawJSON)
	}
	return all
}

// Filter are the rejected nodes in the order given; compare them with slices.EqualFunc(rejected, want, policytest.Rejected.Is).
// The error is [NoAnswer] as the gateway would get it: the verb is not declared, the policy is not ready, it panicked. Or it names
// what the policy API forbids: a reason that is empty or has control characters, reasons of two nodes that differ only in a number,
// a score outside of the scale, a pure verb that answers otherwise when it is asked again about the nodes in another order.
func Filter(source policy.Source, pod *Pod, nodes ...*Node) ([]Rejected, error) {
	const verb = v1beta1.Verb_VERB_FILTER
	verdicts, err := perNode(source, verb, nodes, func(one, two Rejected) bool { return one == two }, func(nodes []*Node) ([]Rejected, error) {
		response, err := call(source, verb, pod, nodes, (*policy.Service).Filter, &v1beta1.FilterRequest{})
		verdicts := make([]Rejected, len(nodes))
		for _, rejection := range response.GetRejections() {
			for _, position := range rejection.GetPositions() {
				verdicts[position] = Rejected{
					Node: nodes[position].row.GetName(), Reason: rejection.GetReason(), Rule: rejection.GetRule(),
					Unresolvable: rejection.GetKind() == v1beta1.RejectionKind_REJECTION_KIND_UNRESOLVABLE,
					RetryAfter:   time.Duration(rejection.GetRetryAfterSeconds()) * time.Second,
				}
			}
		}
		return verdicts, err
	})
	if err != nil {
		return nil, err
	}
	rejected := slices.DeleteFunc(verdicts, func(verdict Rejected) bool { return verdict == Rejected{} })
	return rejected, reasonMistake(rejected)
}

// Score are the raw scores, one a node, in the order given; [policy.NoOpinion] where there is none. Errors are as of [Filter].
func Score(source policy.Source, pod *Pod, nodes ...*Node) ([]int32, error) {
	const verb = v1beta1.Verb_VERB_SCORE
	scores, err := perNode(source, verb, nodes, func(one, two int32) bool { return one == two }, func(nodes []*Node) ([]int32, error) {
		response, err := call(source, verb, pod, nodes, (*policy.Service).Score, &v1beta1.ScoreRequest{})
		scores := response.GetScores().GetValues()
		for _, position := range response.GetScores().GetAbsent() {
			scores[position] = policy.NoOpinion
		}
		return scores, err
	})
	if err != nil {
		return nil, err
	}
	return scores, scoreMistake(source, nodes, scores)
}

// Preempt are the candidates that stay, in the order given. Errors are as of [Filter].
func Preempt(source policy.Source, pod *Pod, candidates ...*Candidate) ([]Kept, error) {
	nodes := make([]*Node, len(candidates))
	for position, candidate := range candidates {
		nodes[position] = candidate.node
	}
	asked, err := ask(source, v1beta1.Verb_VERB_PREEMPT, pod, nodes)
	if err != nil {
		return nil, err
	}
	request := &v1beta1.PreemptRequest{Call: asked.call, Pod: asked.pod, Nodes: asked.nodes}
	for _, candidate := range candidates {
		request.Candidates = append(request.Candidates, asked.candidate(candidate))
	}
	response, err := asked.service.Preempt(context.Background(), request)
	if err != nil {
		return nil, noAnswer(err, nodes...)
	}
	var all []Kept
	for position, candidate := range candidates {
		for _, kept := range response.GetKept() {
			if kept.GetPosition() == uint32(position) {
				all = append(all, candidate.kept(kept.GetVictims()))
			}
		}
	}
	return all, nil
}

// Bind is the result of binding the pod to the node of this name. Errors are as of [Filter], or the policy failed to bind.
func Bind(ctx context.Context, source policy.Source, pod *Pod, node string) (policy.BindResult, error) {
	asked, err := ask(source, v1beta1.Verb_VERB_BIND, pod, nil)
	if err != nil {
		return policy.BindResult{}, err
	}
	response, err := asked.service.Bind(ctx, &v1beta1.BindRequest{
		Call: asked.call, Pod: asked.pod, Node: node, Namespace: pod.pod.GetFacts().GetNamespace(),
		Name: pod.pod.GetIdentity().GetName(), Uid: pod.pod.GetIdentity().GetUid(),
	})
	switch {
	case err != nil:
		return policy.BindResult{}, noAnswer(err)
	case response.GetOutcome() == v1beta1.BindOutcome_BIND_OUTCOME_BOUND:
		return policy.Bound(), nil
	case response.GetOutcome() == v1beta1.BindOutcome_BIND_OUTCOME_NOT_BOUND:
		return policy.NotBound(response.GetMessage()), nil
	default:
		return policy.Declined(response.GetMessage()), nil
	}
}

// Observe lets the policy observe outcomes, in one request. The error is [NoAnswer] as the gateway would get it.
func Observe(ctx context.Context, source policy.Source, outcomes ...policy.Outcome) error {
	service, err := serviceOf(source)
	if err != nil {
		return err
	}
	request := &v1beta1.ReportRequest{
		Call: &v1beta1.Call{Id: "test", Purpose: v1beta1.Purpose_PURPOSE_DECIDE, Gateway: "test", Backend: "test"},
	}
	for _, outcome := range outcomes {
		request.Outcomes = append(request.Outcomes, &v1beta1.Outcome{
			Call: outcome.Call, Namespace: outcome.Namespace, Name: outcome.Name, Uid: outcome.UID,
			Kind: v1beta1.OutcomeKind(outcome.Kind), Node: outcome.Node,
		})
	}
	_, err = service.Report(ctx, request)
	return noAnswer(err)
}

// asked are the fields of a request that all verbs have, for a decision.
type asked struct {
	service *policy.Service
	reads   *v1beta1.Reads
	call    *v1beta1.Call
	pod     *v1beta1.Pod
	nodes   *v1beta1.Nodes
}

// call asks a verb or a hook: it fills the request with what all of them have, with nodes unless it is about the pod alone.
func call[Q proto.Message, R any](
	source policy.Source, verb v1beta1.Verb, pod *Pod, nodes []*Node,
	method func(*policy.Service, context.Context, Q) (R, error), request Q,
) (R, error) {
	asked, err := ask(source, verb, pod, nodes)
	if err != nil {
		var none R
		return none, err
	}
	fields := request.ProtoReflect()
	parts := map[protoreflect.Name]proto.Message{"call": asked.call, "pod": asked.pod}
	if verb != v1beta1.Verb_VERB_BEFORE_FILTER {
		parts["nodes"] = asked.nodes
	}
	for name, part := range parts {
		fields.Set(fields.Descriptor().Fields().ByName(name), protoreflect.ValueOfMessage(part.ProtoReflect()))
	}
	response, err := method(asked.service, context.Background(), request)
	return response, noAnswer(err, nodes...)
}

// ask does what the gateway does for the declaration of the verb. One that is not declared is asked for all the same.
func ask(source policy.Source, verb v1beta1.Verb, pod *Pod, nodes []*Node) (*asked, error) {
	service, err := serviceOf(source)
	if err != nil {
		return nil, err
	}
	info, err := service.GetInfo(context.Background(), &v1beta1.GetInfoRequest{})
	if err != nil {
		return nil, noAnswer(err)
	}
	reads := listed(info, verb).GetReads()
	encoded, err := proto.Marshal(reads)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(encoded)
	asked := &asked{service: service, reads: reads}
	asked.call = &v1beta1.Call{
		Id: pod.callID, Purpose: v1beta1.Purpose_PURPOSE_DECIDE, Gateway: "test", Backend: "test", Reads: digest[:],
		Snapshot: pod.snapshot, Cluster: pod.cluster,
	}
	asked.pod = sentPod(pod.pod, reads.GetPod(), nodes)
	rows := &v1beta1.NodeRows{}
	for _, node := range nodes {
		rows.Rows = append(rows.Rows, sentRow(node, reads.GetNode()))
	}
	asked.nodes = &v1beta1.Nodes{Count: uint32(len(nodes)), Form: &v1beta1.Nodes_Rows{Rows: rows}}
	return asked, nil
}

func (a *asked) candidate(candidate *Candidate) *v1beta1.Candidate {
	sent := &v1beta1.Candidate{PdbViolations: candidate.violating}
	for _, victim := range candidate.victims {
		var pod *v1beta1.Pod
		if victim.pod != nil {
			pod = sentPod(victim.pod.pod, a.reads.GetPod(), nil)
			pod.TopologyCounts = nil
		}
		sent.Victims = append(sent.Victims, &v1beta1.Victim{Uid: victim.uid, Pod: pod})
	}
	return sent
}

func (c *Candidate) kept(positions []uint32) Kept {
	kept := Kept{Node: c.node.row.GetName()}
	for _, position := range positions {
		kept.Victims = append(kept.Victims, c.victims[position].uid)
	}
	return kept
}

// NoAnswer is the error of a call that the policy has not answered: the text that the gateway would log, or, if the policy panicked
// or returned an error, its text, which in service is in the policy's log alone.
type NoAnswer string

// Error is the text.
func (n NoAnswer) Error() string { return string(n) }

// atPosition is how the SDK names a node whose answer is wrong.
var atPosition = regexp.MustCompile(`^((?:score|preempt) returned [^;]* for )position (\d+)`)

// noAnswer is the error of a call that is about these nodes.
func noAnswer(err error, nodes ...*Node) error {
	if err == nil {
		return nil
	}
	text := status.Convert(err).Message()
	if found := atPosition.FindStringSubmatch(text); found != nil {
		// The text may be the policy's own.
		if position, err := strconv.Atoi(found[2]); err == nil && position < len(nodes) {
			text = fmt.Sprintf("%snode %q%s", found[1], nodes[position].row.GetName(), text[len(found[0]):])
		}
	}
	return NoAnswer(text)
}

// serviceOf is one whose errors have the texts that are in the policy's log in service.
func serviceOf(source policy.Source) (*policy.Service, error) {
	service, err := policy.NewService(source)
	if err == nil {
		intest.Mark(service)
	}
	return service, err
}
