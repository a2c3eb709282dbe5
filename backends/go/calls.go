package policy

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

// observedCall is the span of a call that is counted, or written to the request log.
type observedCall struct {
	Span
	began time.Time
	pod   string
	// known are the values of the request log.
	known []any
}

// observe is the span as it is if calls are neither counted nor logged.
func (s *Service) observe(span Span) (Span, *observedCall) {
	if s.metrics == nil && !s.logCalls {
		return span, nil
	}
	call := &observedCall{Span: span, began: time.Now()}
	return call, call
}

// loggedAs are the names of a span's attributes in the request log.
var loggedAs = map[string]string{
	"extender.call.id": "call", "extender.nodes.evaluated": "nodes", "extender.nodes.rejected": "rejected", "extender.miss": "miss",
}

// Set keeps what the request log has.
func (c *observedCall) Set(key string, value any) {
	if name, is := loggedAs[key]; is {
		if text, is := value.(string); is {
			value = logged(text)
		}
		c.known = append(c.known, name, value)
	}
	c.Span.Set(key, value)
}

// end counts the call, and writes its line.
func (c *observedCall) end(s *Service, request proto.Message, status codes.Code, message string) {
	verb := verbOf(request)
	if verb == "" {
		return
	}
	took, name := time.Since(c.began), code.Code(status).String()
	if s.metrics != nil {
		s.metrics.Called(verb, name, took)
	}
	if !s.logCalls {
		return
	}
	line := append([]any{"verb", verb}, c.known...)
	if c.pod != "" {
		line = append(line, "pod", c.pod)
	}
	if status != codes.OK {
		line = append(line, "code", name, "message", message)
	}
	s.log.logger.Info("a call has ended", append(line, "milliseconds", float64(took.Microseconds())/1000)...)
}

// verbNames are those of metrics and the request log, by the types of requests.
var verbNames = map[string]string{
	"GetInfoRequest": "get_info", "FilterRequest": "filter", "ScoreRequest": "score", "PreemptRequest": "preempt", "BindRequest": "bind",
	"ReportRequest": "observe",
}

// hookNames are those of hooks, whose requests have one type.
var hookNames = map[v1beta1.Verb]string{
	v1beta1.Verb_VERB_BEFORE_FILTER:       "before_filter",
	v1beta1.Verb_VERB_BEFORE_FILTER_NODES: "before_filter_nodes",
	v1beta1.Verb_VERB_BEFORE_SCORE:        "before_score",
}

// verbOf is empty for a request without a verb.
func verbOf(request proto.Message) string {
	if change, is := request.(*v1beta1.ChangeRequest); is {
		return hookNames[change.GetHook()]
	}
	return verbNames[string(request.ProtoReflect().Descriptor().Name())]
}

// namePod says for the request log which pod a call is about.
func namePod(ctx context.Context, namespace, name string) {
	if call, is := spanOf(ctx).(*observedCall); is {
		call.pod = podName(namespace, name)
	}
}

// podName is NAMESPACE/NAME, as far as both are read.
func podName(namespace, name string) string {
	return strings.Trim(logged(namespace)+"/"+logged(name), "/")
}

// logged is a text of a request that is short enough for the log.
func logged(text string) string { return cut(valid(text), limits.IdentityBytes) }

// loggerOf adds to each line what belongs to a call.
func loggerOf(logger *slog.Logger, call *v1beta1.Call, namespace, name string) *slog.Logger {
	logger = logger.With("call", logged(call.GetId()))
	if pod := podName(namespace, name); pod != "" {
		logger = logger.With("pod", pod)
	}
	return logger
}
