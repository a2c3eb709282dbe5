// Package calltrace checks the trace of one call of kube-scheduler: a server span of the gateway, below it the
// decision, below that one client span for each request to a backend, and below those the backends' own spans.
package calltrace

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"extender-gateway.io/tests/kube/collector"
)

// The kinds of a decision's links, by their attribute extender.link.
const (
	PreviousCall  = "previous call"
	PodAnnotation = "pod annotation"
)

// Call is the trace of one call, split into its parts.
type Call struct {
	// Verb is filter, prioritize, preempt or bind.
	Verb      string
	Decision  collector.Span
	Questions []Question
}

// Question is the request to one backend.
type Question struct {
	// Asked is the gateway's side, Answered the backend's.
	Asked, Answered collector.Span
}

// Backend is the configured name of the backend.
func (q Question) Backend() string {
	return collector.Text(q.Asked.Attributes, "extender.backend.name")
}

// Of are the calls about the pod with this UID, in the order in which they came. Its error names incomplete traces.
func Of(got []collector.Span, uid string) (calls []Call, err error) {
	for _, trace := range collector.Traces(got) {
		if slices.ContainsFunc(trace, func(s collector.Span) bool { return collector.Text(s.Attributes, "k8s.pod.uid") == uid }) {
			call, wrong := read(trace)
			calls, err = append(calls, call), errors.Join(err, wrong)
		}
	}
	return calls, err
}

// ByVerb are the calls of this verb.
func ByVerb(calls []Call, verb string) []Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.Verb != verb })
}

// rpcs are the calls to backends by verb.
var rpcs = map[string]string{"filter": "Filter", "prioritize": "Score", "preempt": "Preempt", "bind": "Bind"}

// read splits a trace into its parts. Its error names what is missing or in the wrong place.
func read(trace collector.Trace) (call Call, err error) {
	door, err := single(trace.Roots(), tracepb.Span_SPAN_KIND_SERVER, "POST /")
	if err != nil {
		return call, err
	}
	call.Verb = strings.TrimPrefix(door.Name, "POST /")
	if call.Decision, err = single(trace.Children(door), tracepb.Span_SPAN_KIND_INTERNAL, "decide "+call.Verb); err != nil {
		return call, err
	}
	rpc := "extender.policy.v1beta1.PolicyService/" + rpcs[call.Verb]
	for _, child := range trace.Children(call.Decision) {
		asked, one := single([]collector.Span{child}, tracepb.Span_SPAN_KIND_CLIENT, rpc)
		answered, other := single(trace.Children(asked), tracepb.Span_SPAN_KIND_SERVER, rpc)
		call.Questions = append(call.Questions, Question{asked, answered})
		err = errors.Join(err, one, other)
	}
	return call, err
}

// single is the only span, of this kind and with a name that begins like this.
func single(spans []collector.Span, kind tracepb.Span_SpanKind, name string) (collector.Span, error) {
	if len(spans) != 1 || spans[0].Kind != kind || !strings.HasPrefix(spans[0].Name, name) {
		return collector.Span{Span: &tracepb.Span{}}, fmt.Errorf("not one span %s of %v: %v", name, kind, spans)
	}
	return spans[0], nil
}

// Check compares the backends' spans with the gateway's, in a call that succeeded.
func (c Call) Check() (err error) {
	differ := func(backend, what string, got, want any) {
		if got != want {
			err = errors.Join(err, fmt.Errorf("%s of %s: %s is %v instead of %v", c.Verb, backend, what, got, want))
		}
	}
	id := collector.Text(c.Decision.Attributes, "extender.call.id")
	for _, q := range c.Questions {
		said := func(key string) string { return collector.Text(q.Answered.Attributes, key) }
		differ(q.Backend(), "the call", said("extender.call.id"), id)
		differ(q.Backend(), "the backend", said("extender.backend.name"), q.Backend())
		differ(q.Backend(), "the service", q.Answered.Service, said("extender.policy.name"))
		differ(q.Backend(), "the status", said("rpc.response.status_code"), "OK")
		if c.Verb == "filter" || c.Verb == "prioritize" {
			differ(q.Backend(), "no revision", said("extender.policy.revision") == "", false)
			differ(q.Backend(), "nodes evaluated", collector.Number(q.Answered.Attributes, "extender.nodes.evaluated"),
				collector.Number(q.Asked.Attributes, "extender.nodes.asked"))
		}
	}
	return err
}

// Unasked are the backends that took part without a request, because all their answers were cached: the events of
// the decision.
func (c Call) Unasked() (names []string) {
	for _, event := range c.Decision.Events {
		if event.Name == "backend" {
			names = append(names, collector.Text(event.Attributes, "extender.backend.name"))
		}
	}
	return names
}

// CheckParts returns an error unless exactly these backends took part, each by a request or an event.
func (c Call) CheckParts(backends ...string) error {
	got := c.Unasked()
	for _, question := range c.Questions {
		got = append(got, question.Backend())
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(backends)); !slices.Equal(got, want) {
		return fmt.Errorf("%s: %q took part instead of %q", c.Verb, got, want)
	}
	return nil
}

// Links are where the decision's links of this sort lead: trace and span in hexadecimal, as in a traceparent.
func (c Call) Links(sort string) (links []string) {
	for _, link := range c.Decision.Links {
		if collector.Text(link.Attributes, "extender.link") == sort {
			links = append(links, hex.EncodeToString(link.TraceId)+"-"+hex.EncodeToString(link.SpanId))
		}
	}
	return links
}

// CheckChain returns where the calls of one pod are not linked, each to the previous one.
func CheckChain(calls []Call) (err error) {
	var want []string
	for i, call := range calls {
		if links := call.Links(PreviousCall); !slices.Equal(links, want) {
			err = errors.Join(err, fmt.Errorf("call %d, %s, is linked to %q instead of %q", i+1, call.Verb, links, want))
		}
		d := call.Decision
		want = []string{hex.EncodeToString(d.TraceId) + "-" + hex.EncodeToString(d.SpanId)}
	}
	return err
}

// CheckNodes returns the spans that name nodes; that of a bind may name its own.
func CheckNodes(spans []collector.Span, nodes []string) (err error) {
	for _, span := range spans {
		text, named := fmt.Sprint(span), 0
		for _, node := range nodes {
			if strings.Contains(text, node) {
				named++
			}
		}
		isBind := strings.HasSuffix(strings.ToLower(span.Name), "bind")
		if named > 1 || named == 1 && !isBind {
			err = errors.Join(err, fmt.Errorf("%d nodes are named in %s", named, text))
		}
	}
	return err
}
