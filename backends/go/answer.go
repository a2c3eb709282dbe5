package policy

import (
	"context"
	"errors"
	"math"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

// nodesBetweenChecks is after how many nodes a call looks whether its caller still waits.
const nodesBetweenChecks = 64

// GetInfo is the handshake.
func (s *Service) GetInfo(_ context.Context, request *v1beta1.GetInfoRequest) (*v1beta1.GetInfoResponse, error) {
	var response *v1beta1.GetInfoResponse
	err := guarded(s.log, "GetInfo", func() error {
		prepared, err := s.from.policyFor(request.GetArgs())
		if err == nil {
			response = s.withControllers(prepared.declaration.response)
		}
		return err
	})
	return response, statusOf(err)
}

// Filter says on which of the nodes the pod may not run; with scores if they are wanted and may be given.
func (s *Service) Filter(ctx context.Context, request *v1beta1.FilterRequest) (*v1beta1.FilterResponse, error) {
	response := &v1beta1.FilterResponse{}
	err := s.about(ctx, verbFilter, request, &response.Result, func(q *question) error {
		filter := q.prepared.policy.Filter
		verdicts, err := answers(q, "Filter.Nodes", filter.Nodes, filter.Node)
		if err != nil {
			return err
		}
		var rejected int
		response.Rejections, rejected = rejections(verdicts)
		spanOf(ctx).Set("extender.nodes.rejected", int64(rejected))
		if request.GetWantScores() {
			response.Scores = s.earlyScores(q)
		}
		return nil
	})
	return response, err
}

// earlyScores are scores with the verdicts. If they cannot be given, the gateway requests them in a separate call: these
// nodes include rejected ones, for which the policy may not expect to be called.
func (s *Service) earlyScores(q *question) *v1beta1.Scores {
	terms := q.prepared.declaration.verbs[verbScore]
	if terms == nil || !terms.mayComeWith(q.terms) {
		return nil
	}
	var scores *v1beta1.Scores
	err := s.answered(verbScore, func() (err error) {
		if err = q.prepared.ready(); err == nil {
			q.origin.pure = terms.pure
			q.pod = q.origin.view(q.pod.view.pod)
			scores, err = q.scores()
		}
		return err
	})
	if err != nil {
		return nil
	}
	return scores
}

// Score says how good each of the nodes is.
func (s *Service) Score(ctx context.Context, request *v1beta1.ScoreRequest) (*v1beta1.ScoreResponse, error) {
	response := &v1beta1.ScoreResponse{}
	err := s.about(ctx, verbScore, request, &response.Result, func(q *question) (err error) {
		response.Scores, err = q.scores()
		return err
	})
	return response, err
}

// Preempt says which pods may be evicted on which of the nodes.
func (s *Service) Preempt(ctx context.Context, request *v1beta1.PreemptRequest) (*v1beta1.PreemptResponse, error) {
	response := &v1beta1.PreemptResponse{}
	err := s.about(ctx, verbPreempt, request, &response.Result, func(q *question) (err error) {
		response.Kept, err = q.evictions(request.GetCandidates())
		return err
	})
	return response, err
}

// Bind binds the pod, or declines.
func (s *Service) Bind(ctx context.Context, request *v1beta1.BindRequest) (*v1beta1.BindResponse, error) {
	response := &v1beta1.BindResponse{}
	err := s.answered(verbBind, func() error {
		prepared, terms, err := s.chosen(ctx, request.GetCall(), verbBind)
		if err != nil {
			return err
		}
		asked, err := s.bindAsk(ctx, request, terms)
		if err != nil {
			return err
		}
		if err := prepared.ready(); err != nil {
			return err
		}
		result, err := prepared.policy.Bind.Pod(ctx, asked)
		if err != nil {
			return s.bindFailed(ctx, err)
		}
		return describeBind(result, response)
	})
	return response, err
}

func (s *Service) bindAsk(ctx context.Context, request *v1beta1.BindRequest, terms *terms) (BindAsk, error) {
	asked := BindAsk{request: request, logger: s.log.logger}
	namePod(ctx, request.GetNamespace(), request.GetName())
	if pod := request.GetPod(); pod != nil {
		if pod.GetFacts() == nil {
			return asked, missing("pod.facts")
		}
		if wrong := checkPod(pod.GetFacts(), terms.pod); wrong != "" {
			return asked, malformed("pod.facts.%s", wrong)
		}
		origin := podOrigin{ctx: ctx, call: request.GetCall(), access: terms.pod, logger: s.log.logger}
		asked.pod = origin.view(pod)
	}
	for _, field := range []struct{ name, value string }{
		{"namespace", request.GetNamespace()}, {"name", request.GetName()}, {"uid", request.GetUid()}, {"node", request.GetNode()},
	} {
		if field.value == "" {
			return asked, missing(field.name)
		}
	}
	return asked, checkSamePod(request)
}

// checkSamePod rejects facts about another pod: what a policy decides from them would be done to this one. What the verb
// does not read is left out.
func checkSamePod(request *v1beta1.BindRequest) error {
	pod := request.GetPod()
	for _, field := range []struct{ name, told, made string }{
		{"facts.namespace", pod.GetFacts().GetNamespace(), request.GetNamespace()},
		{"identity.name", pod.GetIdentity().GetName(), request.GetName()},
		{"identity.uid", pod.GetIdentity().GetUid(), request.GetUid()},
	} {
		if field.told != "" && field.told != field.made {
			return malformed("pod.%s is that of another pod than the one to bind", field.name)
		}
	}
	return nil
}

// bindFailed is the policy's error; its caller may have given up meanwhile. The text of an error that this package did not make
// may hold anything: it is for the log alone.
func (s *Service) bindFailed(ctx context.Context, err error) error {
	var made *callError
	switch {
	case ctx.Err() != nil:
		return refused(codeOf(ctx.Err()), "bind was not answered in time")
	case errors.As(err, &made) && made.code == codes.Aborted:
		return err
	case errors.As(err, &made):
		return refused(codes.Unavailable, "%v", err)
	default:
		s.log.logger.Error("the policy failed to bind; the gateway looks whether the pod is bound", "error", err)
		return s.log.failed(codes.Unavailable, verbBind.String(), err)
	}
}

func describeBind(result BindResult, response *v1beta1.BindResponse) error {
	switch result.kind {
	case bindBound:
		response.Outcome = v1beta1.BindOutcome_BIND_OUTCOME_BOUND
	case bindDeclined:
		response.Outcome = v1beta1.BindOutcome_BIND_OUTCOME_DECLINED
	case bindNotBound:
		response.Outcome = v1beta1.BindOutcome_BIND_OUTCOME_NOT_BOUND
	default:
		return refused(codes.Internal, "bind returned no result; expected Bound, Declined, NotBound or an error")
	}
	response.Message = cut(valid(result.why), limits.BindMessageBytes)
	return nil
}

func (p *prepared) ready() error {
	if p.policy.Ready == nil {
		return nil
	}
	if err := p.policy.Ready(); err != nil {
		return refused(codes.Unavailable, "%v", err)
	}
	return nil
}

func (q *question) result() *v1beta1.Result {
	if q.miss != v1beta1.Miss_MISS_UNSPECIFIED {
		return &v1beta1.Result{Outcome: &v1beta1.Result_Miss{Miss: q.miss}}
	}
	return &v1beta1.Result{
		Outcome:  &v1beta1.Result_Evaluated{Evaluated: q.count},
		Revision: q.prepared.declaration.response.GetRevision(),
	}
}

// each calls answer for each node, as long as the caller waits.
func (q *question) each(answer func(position int, node Node)) error {
	for position, node := range q.nodes.All() {
		if position%nodesBetweenChecks == 0 && q.ctx.Err() != nil {
			return q.ctx.Err()
		}
		answer(position, node)
	}
	return nil
}

// answers are those of one function for all nodes, or of one for each.
func answers[T any](
	q *question, name string, all func(context.Context, Pod, Nodes) []T, one func(Pod, Node) T,
) ([]T, error) {
	if all != nil {
		return counted(q, name, all(q.ctx, q.pod, q.nodes))
	}
	given := make([]T, q.nodes.Len())
	err := q.each(func(position int, node Node) { given[position] = one(q.pod, node) })
	return given, err
}

func (q *question) scores() (*v1beta1.Scores, error) {
	score := q.prepared.policy.Score
	scores, err := answers(q, "Score.Nodes", score.Nodes, score.Node)
	if err != nil {
		return nil, err
	}
	sent := &v1beta1.Scores{Values: make([]int32, len(scores))}
	for position, score := range scores {
		switch {
		case score == NoOpinion:
			sent.Absent = append(sent.Absent, uint32(position))
		case score < math.MinInt32 || score > math.MaxInt32:
			return nil, refused(codes.Internal, "score returned %d for position %d; expected %d to %d",
				score, position, math.MinInt32, math.MaxInt32)
		default:
			sent.Values[position] = int32(score)
		}
	}
	return sent, nil
}

// counted fails if a policy answers for more or fewer nodes than the call has: it cannot be trusted to have matched them.
func counted[T any](q *question, method string, answers []T) ([]T, error) {
	if given, asked := len(answers), q.nodes.Len(); given != asked {
		return nil, refused(codes.Internal, "%s returned %d answers for %d nodes; expected one per node", method, given, asked)
	}
	return answers, nil
}

func (q *question) evictions(asked []*v1beta1.Candidate) ([]*v1beta1.KeptCandidate, error) {
	candidates := make([]Candidate, len(asked))
	for position, candidate := range asked {
		candidates[position] = Candidate{node: q.nodes.At(position), candidate: candidate, of: &q.origin}
	}
	preempt := q.prepared.policy.Preempt
	evictions := make([]Eviction, len(candidates))
	var err error
	if preempt.Nodes != nil {
		evictions, err = counted(q, "Preempt.Nodes", preempt.Nodes(q.ctx, q.pod, candidates))
	} else {
		err = q.each(func(position int, _ Node) { evictions[position] = preempt.Node(q.pod, candidates[position]) })
	}
	if err != nil {
		return nil, err
	}
	return kept(candidates, evictions)
}

func (q *question) checkCandidates(candidates []*v1beta1.Candidate) error {
	if len(candidates) != q.nodes.Len() {
		return malformed("nodes.count is %d and there are %d candidates; each node has one", q.count, len(candidates))
	}
	for position, candidate := range candidates {
		if len(candidate.GetVictims()) == 0 && !candidate.GetPlaceholder() {
			return malformed("candidates[%d] has no victims and is no placeholder; expected one of them", position)
		}
		for index, victim := range candidate.GetVictims() {
			if victim.GetUid() == "" {
				return malformed("candidates[%d].victims[%d].uid is missing; every victim has it", position, index)
			}
			if wrong := checkPod(victim.GetPod().GetFacts(), q.terms.pod); wrong != "" {
				return malformed("candidates[%d].victims[%d].pod.facts.%s", position, index, wrong)
			}
		}
	}
	return nil
}

// kept are the candidates that stay, by position. A policy that names a victim that does not exist has made a mistake.
func kept(candidates []Candidate, evictions []Eviction) ([]*v1beta1.KeptCandidate, error) {
	var all []*v1beta1.KeptCandidate
	for position, eviction := range evictions {
		if eviction.kind == evictNone {
			continue
		}
		victims, err := eviction.victims(position, candidates[position].VictimCount())
		if err != nil {
			return nil, err
		}
		all = append(all, &v1beta1.KeptCandidate{Position: uint32(position), Victims: victims})
	}
	return all, nil
}

func (e Eviction) victims(position, there int) ([]uint32, error) {
	positions := slices.Sorted(slices.Values(e.positions))
	if e.kind == evictAll {
		positions = positions[:0]
		for victim := range there {
			positions = append(positions, victim)
		}
	}
	victims := make([]uint32, len(positions))
	for index, victim := range positions {
		if victim < 0 || victim >= there || index > 0 && positions[index-1] == victim {
			victims = nil
			break
		}
		victims[index] = uint32(victim)
	}
	if len(victims) == 0 && e.kind != evictAll {
		return nil, refused(codes.Internal, "preempt returned victims %v for position %d, which has %d; expected each at most once, "+
			"at least one victim, or Spare", positions, position, there)
	}
	return victims, nil
}

// rejections groups verdicts: the contract wants one entry for each reason and rule, in the order of their first
// occurrence. It also counts the rejected nodes.
func rejections(verdicts []Verdict) ([]*v1beta1.Rejection, int) {
	var groups []*v1beta1.Rejection
	var known map[Verdict]*v1beta1.Rejection
	var last *v1beta1.Rejection
	var lastVerdict Verdict
	rejected := 0
	for position, verdict := range verdicts {
		if !verdict.rejected {
			continue
		}
		rejected++
		// Most nodes are rejected for the reason of the one before.
		if last == nil || verdict != lastVerdict {
			if known == nil {
				known = map[Verdict]*v1beta1.Rejection{}
			}
			if known[verdict] == nil {
				known[verdict] = verdict.group()
				groups = append(groups, known[verdict])
			}
			last, lastVerdict = known[verdict], verdict
		}
		last.Positions = append(last.Positions, uint32(position))
	}
	return groups, rejected
}

func (v Verdict) group() *v1beta1.Rejection {
	kind := v1beta1.RejectionKind_REJECTION_KIND_UNSCHEDULABLE
	if v.unresolvable {
		kind = v1beta1.RejectionKind_REJECTION_KIND_UNRESOLVABLE
	}
	rejection := &v1beta1.Rejection{
		Reason: cut(valid(v.reason), maxReasonBytes),
		Kind:   kind,
		Rule:   cut(valid(v.rule), limits.RuleBytes),
	}
	if v.hasRetry {
		rejection.RetryAfterSeconds = proto.Uint32(v.retryAfter)
	}
	return rejection
}
