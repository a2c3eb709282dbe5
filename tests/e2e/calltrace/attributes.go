package calltrace

import (
	"errors"
	"fmt"
	"strings"

	"extender-gateway.io/tests/kube/collector"
)

// Check returns what is wrong with the attributes of a call that succeeded and in which no backend failed.
func (c Call) Check() error {
	errs := []error{c.checkDoor(), c.checkDecision()}
	for _, question := range c.Questions {
		errs = append(errs, c.checkAsked(question), c.checkAnswered(question))
	}
	return errors.Join(errs...)
}

func (c Call) checkDoor() error {
	return errors.Join(
		has(c.Door, collector.Attributes{
			"http.request.method": "POST", "http.route": "/" + c.Verb, "url.scheme": "http",
			"http.response.status_code": int64(200), "network.protocol.version": "1.1", "client.address": "127.0.0.1",
		}),
		endsWith(c.Door, "url.path", "/"+c.Verb),
		atLeast(c.Door, 1, "http.request.body.size", "http.response.body.size"),
		differ("the door's status", c.Door.Status.Code == collector.Error, false),
	)
}

func (c Call) checkDecision() error {
	return errors.Join(
		has(c.Decision, collector.Attributes{"extender.verb": c.Verb, "extender.outcome": "ok"}),
		present(c.Decision, "k8s.pod.uid", "k8s.pod.name", "k8s.namespace.name", "extender.call.id"),
		atLeast(c.Decision, 1, "extender.configuration.generation"),
		c.checkCounts(),
		differ("the decision's status", c.Decision.Status.Code == collector.Error, false),
	)
}

// checkCounts is about the nodes that kube-scheduler offers; bind has none.
func (c Call) checkCounts() error {
	if c.Verb == "bind" || c.Verb == "preempt" {
		return nil
	}
	err := errors.Join(present(c.Decision, "extender.node_form"), atLeast(c.Decision, 1, "extender.nodes.offered"), atLeast(c.Decision, 0, "extender.nodes.known"))
	if c.Verb != "filter" {
		return err
	}
	offered, left, rejected := c.number("offered"), c.number("left"), c.number("rejected")
	return errors.Join(err, differ("nodes that are left and rejected", left+rejected, offered))
}

// number is one of the decision's counts of nodes.
func (c Call) number(which string) int64 {
	return c.Decision.Attributes.Number("extender.nodes." + which)
}

func (c Call) checkAsked(q Question) error {
	return errors.Join(
		has(q.Asked, collector.Attributes{
			"rpc.system.name": "grpc", "rpc.method": q.Asked.Name, "rpc.response.status_code": "OK", "server.address": "127.0.0.1",
		}),
		present(q.Asked, "extender.backend.name", "extender.mode"),
		atLeast(q.Asked, 1, "server.port"),
		c.checkAskedCounts(q),
	)
}

func (c Call) checkAskedCounts(q Question) error {
	if c.Verb == "bind" || c.Verb == "preempt" {
		return nil
	}
	return errors.Join(atLeast(q.Asked, 1, "extender.nodes.asked"), atLeast(q.Asked, 0, "extender.nodes.known"))
}

// checkAnswered compares both sides of a request.
func (c Call) checkAnswered(q Question) error {
	if q.Answered == nil {
		return nil
	}
	answered := *q.Answered
	err := errors.Join(
		has(answered, collector.Attributes{
			"rpc.system.name": "grpc", "rpc.method": q.Asked.Name, "rpc.response.status_code": "OK",
			"extender.backend.name": q.Backend(), "extender.call.id": c.Decision.Attributes.Text("extender.call.id"),
		}),
		present(answered, "extender.policy.name"),
		differ("the service of "+q.Backend(), answered.Service(), answered.Attributes.Text("extender.policy.name")),
		differ("the status of "+q.Backend(), answered.Status.Code == collector.Error, false),
	)
	if c.Verb == "bind" || c.Verb == "preempt" {
		return err
	}
	return errors.Join(err,
		present(answered, "extender.policy.revision"),
		differ("nodes evaluated by "+q.Backend(), answered.Attributes.Number("extender.nodes.evaluated"), q.Asked.Attributes.Number("extender.nodes.asked")),
	)
}

// CheckFailed returns what is wrong with a request that must fail as one of these kinds, under this failure policy.
func (q Question) CheckFailed(policy string, kinds ...string) error {
	return errors.Join(
		differ(q.Backend()+" failed", q.Failed(), true),
		has(q.Asked, collector.Attributes{"extender.failure.policy": policy}),
		oneOf(q.Asked, "error.type", kinds),
	)
}

func has(span collector.Span, want collector.Attributes) error {
	var errs []error
	for key, value := range want {
		errs = append(errs, differ(span.Name+": "+key, span.Attributes[key], value))
	}
	return errors.Join(errs...)
}

func present(span collector.Span, keys ...string) error {
	var errs []error
	for _, key := range keys {
		if span.Attributes.Text(key) == "" {
			errs = append(errs, fmt.Errorf("%s: no text in %s", span.Name, key))
		}
	}
	return errors.Join(errs...)
}

func atLeast(span collector.Span, least int64, keys ...string) error {
	var errs []error
	for _, key := range keys {
		if span.Attributes.Number(key) < least {
			errs = append(errs, fmt.Errorf("%s: %s is %v, less than %d", span.Name, key, span.Attributes[key], least))
		}
	}
	return errors.Join(errs...)
}

func endsWith(span collector.Span, key, end string) error {
	if text := span.Attributes.Text(key); !strings.HasSuffix(text, end) {
		return fmt.Errorf("%s: %s is %q", span.Name, key, text)
	}
	return nil
}

func oneOf(span collector.Span, key string, values []string) error {
	for _, value := range values {
		if span.Attributes[key] == value {
			return nil
		}
	}
	return fmt.Errorf("%s: %s is %v instead of one of %q", span.Name, key, span.Attributes[key], values)
}
