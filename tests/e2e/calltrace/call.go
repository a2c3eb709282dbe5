package calltrace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"extender-gateway.io/tests/kube/collector"
)

// Gateway is the service.name of the gateway.
const Gateway = "extender-gateway"

// Call is the trace of one call, split into its parts.
type Call struct {
	// Trace is the whole of it.
	Trace collector.Trace
	// Verb is filter, prioritize, preempt or bind.
	Verb string
	// Door is the span of the request to the gateway, Decision that of its decision.
	Door, Decision collector.Span
	Questions      []Question
}

// Question is the request to one backend.
type Question struct {
	// Asked is the gateway's side.
	Asked collector.Span
	// Answered is the backend's side; nil if it did not answer, or the gateway did not wait for it.
	Answered *collector.Span
}

// Backend is the configured name of the backend.
func (q Question) Backend() string { return q.Asked.Attributes.Text("extender.backend.name") }

// Failed reports whether there was no usable answer.
func (q Question) Failed() bool { return q.Asked.Status.Code == collector.Error }

// isAnswered reports whether the gateway got an answer by gRPC, so that the backend must have received the request.
func (q Question) isAnswered() bool { return q.Asked.Attributes["rpc.response.status_code"] == "OK" }

// Sides is whose spans a trace has.
type Sides int

const (
	// BothSides are the gateway's, and the backends' for each request that was answered.
	BothSides Sides = iota
	// GatewayAlone is a trace that was not sampled and is kept nevertheless.
	GatewayAlone
)

// rpcs are the calls to backends by verb.
var rpcs = map[string]string{"filter": "Filter", "prioritize": "Score", "preempt": "Preempt", "bind": "Bind"}

// service is the backends' gRPC service.
const service = "extender.policy.v1alpha1.PolicyService/"

// Read splits a trace into its parts. Its error names what is missing or in the wrong place.
func Read(trace collector.Trace, sides Sides) (Call, error) {
	call := Call{Trace: trace}
	if err := errors.Join(call.readDoor(), call.readDecision(), call.readQuestions(sides)); err != nil {
		return call, fmt.Errorf("trace %s: %w", trace.ID(), err)
	}
	return call, nil
}

func (c *Call) readDoor() (err error) {
	c.Door, err = single("spans without a parent", c.Trace.Roots())
	c.Verb = strings.TrimPrefix(c.Door.Name, "POST /")
	if err != nil {
		return err
	}
	return errors.Join(
		expect(c.Door, collector.Server, Gateway, "POST /"+c.Verb),
		differ("the verb is served", rpcs[c.Verb] != "", true),
		differ("the parent of "+c.Door.Name, c.Door.Parent, ""),
	)
}

func (c *Call) readDecision() (err error) {
	c.Decision, err = single("spans below the door", c.Trace.Children(c.Door))
	if err != nil {
		return err
	}
	return expect(c.Decision, collector.Internal, Gateway, "decide "+c.Verb)
}

func (c *Call) readQuestions(sides Sides) error {
	var errs []error
	for _, asked := range c.Trace.Children(c.Decision) {
		question := Question{Asked: asked}
		errs = append(errs, expect(asked, collector.Client, Gateway, service+rpcs[c.Verb]), question.readAnswer(c.Trace, sides))
		c.Questions = append(c.Questions, question)
	}
	return errors.Join(errs...)
}

func (q *Question) readAnswer(trace collector.Trace, sides Sides) error {
	below := trace.Children(q.Asked)
	if len(below) == 0 && (!q.isAnswered() || sides == GatewayAlone) {
		return nil
	}
	answered, err := single("spans of "+q.Backend(), below)
	if err != nil {
		return err
	}
	q.Answered = &answered
	return errors.Join(
		differ("the backend's spans are there", sides == BothSides, true),
		differ("the service is the gateway", answered.Service() == Gateway, false),
		expect(answered, collector.Server, answered.Service(), q.Asked.Name),
	)
}

// Of are the calls about the pod with this UID, in the order in which they came. Its error names incomplete traces.
func Of(got collector.Telemetry, uid string, sides Sides) ([]Call, error) {
	var calls []Call
	var errs []error
	for _, trace := range got.Traces() {
		if !slices.ContainsFunc(trace, func(s collector.Span) bool { return s.Attributes.Text("k8s.pod.uid") == uid }) {
			continue
		}
		call, err := Read(trace, sides)
		calls, errs = append(calls, call), append(errs, err)
	}
	return calls, errors.Join(errs...)
}

// ByVerb are the calls of this verb.
func ByVerb(calls []Call, verb string) []Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.Verb != verb })
}

func single(what string, spans []collector.Span) (collector.Span, error) {
	if len(spans) != 1 {
		return collector.Span{}, fmt.Errorf("%d %s instead of one", len(spans), what)
	}
	return spans[0], nil
}

// expect compares the fields that identify a span.
func expect(span collector.Span, kind collector.Kind, service, name string) error {
	return errors.Join(
		differ("the name", span.Name, name),
		differ("the kind of "+name, span.Kind, kind),
		differ("the service of "+name, span.Service(), service),
		differ(name+" ended before it began", span.End.Before(span.Start), false),
	)
}

func differ[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: %v instead of %v", what, got, want)
	}
	return nil
}
