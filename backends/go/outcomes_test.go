package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
)

func observing(observe func(context.Context, Outcome) error) Policy {
	p := noArm()
	p.Observe = observe
	return p
}

func boundPod() *v1beta1.Outcome {
	return &v1beta1.Outcome{Call: "c", Namespace: "shop", Name: "web", Uid: "u", Kind: v1beta1.OutcomeKind_OUTCOME_KIND_BOUND, Node: "a"}
}

func (s *server) report(call *v1beta1.Call, outcomes ...*v1beta1.Outcome) error {
	_, err := v1beta1.NewOutcomeServiceClient(s.ClientConn).Report(within(s.t), &v1beta1.ReportRequest{Call: call, Outcomes: outcomes})
	return err
}

// decided is a call of the gateway for a report.
func decided() *v1beta1.Call {
	return &v1beta1.Call{Id: "c-1", Purpose: v1beta1.Purpose_PURPOSE_DECIDE, Gateway: "g", Backend: "b"}
}

func TestOutcomesAreObservedInOrder(t *testing.T) {
	var observed []Outcome
	s := start(t, observing(func(_ context.Context, outcome Outcome) error {
		observed = append(observed, outcome)
		return nil
	}))
	var sent []*v1beta1.Outcome
	for _, kind := range []v1beta1.OutcomeKind{4, 2, 3, 77} {
		outcome := boundPod()
		outcome.Kind, outcome.Node = kind, ""
		sent = append(sent, outcome)
	}
	later := decided()
	later.Purpose = 77
	if err := errors.Join(s.report(decided(), append(sent, boundPod())...), s.report(later, boundPod())); err != nil {
		t.Error(err)
	}
	want := []Outcome{}
	for _, kind := range []OutcomeKind{OutcomeDeleted, OutcomeNotBound, OutcomeSuperseded, OutcomeSuperseded, OutcomeBound, OutcomeBound} {
		node := ""
		if kind == OutcomeBound {
			node = "a"
		}
		want = append(want, Outcome{Call: "c", Namespace: "shop", Name: "web", UID: "u", Kind: kind, Node: node})
	}
	if !slices.Equal(observed, want) {
		t.Errorf("%v; want %v", observed, want)
	}
}

func TestAReportThatIsNotValidHasNoEffect(t *testing.T) {
	s := start(t, observing(func(context.Context, Outcome) error { return errors.New("observed") }))
	without := func(field string) *v1beta1.Outcome {
		outcome := boundPod().ProtoReflect()
		outcome.Clear(outcome.Descriptor().Fields().ByTextName(field))
		return outcome.Interface().(*v1beta1.Outcome)
	}
	for _, field := range []string{"call", "namespace", "name", "uid", "kind", "node"} {
		expect(t, s.report(decided(), boundPod(), without(field)), codes.InvalidArgument, fmt.Sprintf("outcomes[1].%s is missing", field))
	}
	expect(t, s.report(nil, boundPod()), codes.InvalidArgument, "call is missing")
	expect(t, s.report(&v1beta1.Call{Id: "c-1"}, boundPod()), codes.InvalidArgument, "call.purpose is missing")
	expect(t, s.report(decided()), codes.InvalidArgument, "outcomes is missing")
	unobserving := start(t, noArm())
	expect(t, unobserving.report(decided(), boundPod()), codes.Unimplemented, "this policy does not observe outcomes")
}

func TestWhatFailsToBeObservedIsSentAgain(t *testing.T) {
	var log syncBuffer
	var observed []string
	var notReady error
	p := observing(func(_ context.Context, outcome Outcome) error {
		observed = append(observed, outcome.UID)
		switch outcome.UID {
		case "error":
			return InvalidParameter("the password is x")
		case "panic":
			panic("the password is x")
		default:
			return nil
		}
	})
	p.Ready = func() error { return notReady }
	s := startWith(t, p, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for times, uid := range []string{"error", "panic"} {
		failing := boundPod()
		failing.Uid = uid
		err := s.report(decided(), boundPod(), failing, boundPod())
		expect(t, err, codes.Internal, "report failed; see the policy's log")
		if strings.Contains(err.Error(), "password") {
			t.Errorf("the text leaves the process: %v", err)
		}
		if strings.Count(log.String(), "the password is x") != times+1 {
			t.Errorf("the log is %s", log.String())
		}
	}
	notReady = errors.New("reservations are being read")
	expect(t, s.report(decided(), boundPod()), codes.Unavailable, "reservations are being read")
	if want := []string{"u", "error", "u", "panic"}; !slices.Equal(observed, want) {
		t.Errorf("%v; want %v", observed, want)
	}
}

func TestTheArgsOfAReportAreNamedByTheirDigest(t *testing.T) {
	s := start(t, zoned())
	const args = `{"zone":"a"}`
	expect(t, s.report(withDigest(args), boundPod()), codes.FailedPrecondition, "the args of this call are not known here; send them")
	if err := errors.Join(s.report(withArgs(args), boundPod()), s.report(withDigest(args), boundPod())); err != nil {
		t.Error(err)
	}
}
