package policy

import (
	"context"

	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
)

// Outcome is how an attempt to place a pod ended: what [Policy.Observe] gets.
type Outcome struct {
	// Call is the id of the latest call of Filter or Bind about the pod: [Pod.CallID] and [BindAsk.CallID] there.
	Call string
	// Namespace is metadata.namespace of the pod.
	Namespace string
	// Name is metadata.name of the pod.
	Name string
	// UID is metadata.uid of the pod.
	UID  string
	Kind OutcomeKind
	// Node is the name of the node to which the pod is bound, whoever chose it; empty if it is not bound.
	Node string
}

// OutcomeKind is how an attempt ended.
type OutcomeKind int32

const (
	// OutcomeBound: the pod is bound to a node.
	OutcomeBound = OutcomeKind(v1beta1.OutcomeKind_OUTCOME_KIND_BOUND)
	// OutcomeNotBound: the pod is not bound, and certainly will not be by this attempt.
	OutcomeNotBound = OutcomeKind(v1beta1.OutcomeKind_OUTCOME_KIND_NOT_BOUND)
	// OutcomeSuperseded: another attempt has begun before it was known how this one ended, and this one has no effect any more.
	// The outcome of the other one follows.
	OutcomeSuperseded = OutcomeKind(v1beta1.OutcomeKind_OUTCOME_KIND_SUPERSEDED)
	// OutcomeDeleted: the pod does not exist any more, or has ended, whether it was bound or not.
	OutcomeDeleted = OutcomeKind(v1beta1.OutcomeKind_OUTCOME_KIND_DELETED)
)

// outcomeOf takes a kind of a later version for OutcomeSuperseded.
func outcomeOf(sent *v1beta1.Outcome) Outcome {
	outcome := Outcome{
		Call: sent.GetCall(), Namespace: sent.GetNamespace(), Name: sent.GetName(), UID: sent.GetUid(),
		Kind: OutcomeKind(sent.GetKind()), Node: sent.GetNode(),
	}
	if outcome.Kind < OutcomeBound || outcome.Kind > OutcomeDeleted {
		outcome.Kind = OutcomeSuperseded
	}
	return outcome
}

// Report lets the policy observe how attempts ended, once all of the request is known to be valid.
func (s *Service) Report(ctx context.Context, request *v1beta1.ReportRequest) (*v1beta1.ReportResponse, error) {
	err := guarded(s.log, "Report", func() error {
		prepared, err := s.observing(request.GetCall())
		if err != nil {
			return err
		}
		if err := checkOutcomes(request.GetOutcomes()); err != nil {
			return err
		}
		if err := prepared.ready(); err != nil {
			return err
		}
		for _, outcome := range request.GetOutcomes() {
			err := ctx.Err()
			if err == nil {
				err = prepared.policy.Observe(ctx, outcomeOf(outcome))
			}
			if err != nil {
				return s.notObserved(ctx, err)
			}
		}
		return nil
	})
	return &v1beta1.ReportResponse{}, statusOf(err)
}

// observing is the policy that observes outcomes.
func (s *Service) observing(call *v1beta1.Call) (*prepared, error) {
	if call == nil {
		return nil, missing("call")
	}
	versions, err := s.from.called(call)
	if err != nil {
		return nil, err
	}
	latest, err := s.from.latestOf(versions)
	switch {
	case err != nil:
		return nil, err
	case latest.policy.Observe == nil:
		return nil, refused(codes.Unimplemented, "this policy does not observe outcomes; its GetInfo does not list the service")
	}
	return latest, checkPurpose(call.GetPurpose(), false)
}

func checkOutcomes(outcomes []*v1beta1.Outcome) error {
	if len(outcomes) == 0 {
		return missing("outcomes")
	}
	for position, outcome := range outcomes {
		isBound := outcome.GetKind() == v1beta1.OutcomeKind_OUTCOME_KIND_BOUND
		for _, field := range []struct {
			name  string
			lacks bool
		}{
			{"call", outcome.GetCall() == ""}, {"namespace", outcome.GetNamespace() == ""}, {"name", outcome.GetName() == ""},
			{"uid", outcome.GetUid() == ""}, {"kind", outcome.GetKind() == v1beta1.OutcomeKind_OUTCOME_KIND_UNSPECIFIED},
			{"node", isBound && outcome.GetNode() == ""},
		} {
			if field.lacks {
				return malformed("outcomes[%d].%s is missing; every outcome has call, namespace, name, uid and kind, and that of a pod "+
					"that is bound has node", position, field.name)
			}
		}
	}
	return nil
}

// notObserved is the policy's error, whose text may hold anything: it is for the log alone. The gateway may have given up meanwhile.
func (s *Service) notObserved(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return refused(codeOf(ctx.Err()), "report was not answered in time")
	}
	s.log.logger.Error("the policy failed to observe an outcome; the gateway sends the request again", "error", err)
	return s.log.failed(codes.Internal, "Report", err)
}
