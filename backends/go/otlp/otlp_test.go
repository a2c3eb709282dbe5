package otlp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
)

// collector is an OpenTelemetry collector's trace service.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	received chan *tracepb.ResourceSpans
}

func (c *collector) Export(_ context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	for _, spans := range request.GetResourceSpans() {
		c.received <- spans
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
)

func TestATracedCallIsASpanOfTheGatewaysTrace(t *testing.T) {
	collector := &collector{received: make(chan *tracepb.ResourceSpans, 16)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	collecting := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(collecting, collector)
	go func() { _ = collecting.Serve(listener) }()
	t.Cleanup(collecting.Stop)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")

	// A server to which the policy sends a request of its own.
	carried := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { carried <- r.Header.Get("traceparent") }))
	t.Cleanup(other.Close)
	var reads policy.Reads
	reads.Node(policy.NodeName)
	traced := policy.Policy{Name: "traced", Version: "7", Revision: "7-a", Filter: &policy.Filter{Reads: &reads, Node: func(pod policy.Pod, node policy.Node) policy.Verdict {
		trace.SpanFromContext(pod.Context()).SetAttributes(attribute.String("acme.quota", "left"))
		if node.Name() == "panics" {
			panic("as asked")
		}
		request, _ := http.NewRequestWithContext(pod.Context(), http.MethodGet, other.URL, nil)
		otel.GetTextMapPropagator().Inject(pod.Context(), propagation.HeaderCarrier(request.Header))
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
		}
		return policy.Reject("no")
	}}}
	address, stop := serve(t, traced)
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	info, err := v1beta1.NewPolicyServiceClient(connection).GetInfo(context.Background(), &v1beta1.GetInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	declared, err := proto.Marshal(info.GetVerbs()[0].GetReads())
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(declared)
	ask := func(node, parent string) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if parent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent, "tracestate", "a=1")
		}
		row := &v1beta1.NodeRow{Name: node}
		_, _ = v1beta1.NewPolicyServiceClient(connection).Filter(ctx, &v1beta1.FilterRequest{
			Call:  &v1beta1.Call{Id: "c-9", Purpose: v1beta1.Purpose_PURPOSE_DECIDE, Gateway: "g", Backend: "quota", Reads: digest[:]},
			Pod:   &v1beta1.Pod{Facts: &v1beta1.PodFacts{}},
			Nodes: &v1beta1.Nodes{Count: 1, Form: &v1beta1.Nodes_Rows{Rows: &v1beta1.NodeRows{Rows: []*v1beta1.NodeRow{row}}}},
		})
	}
	sampled := fmt.Sprintf("00-%s-%s-01", traceID, parentID)
	for _, ignored := range []string{"", "nonsense", fmt.Sprintf("00-%s-%s-00", traceID, parentID), "00-" + strings.Repeat("0", 32) + "-" + parentID + "-01"} {
		ask("a", ignored)
		if got := <-carried; got != "" {
			t.Errorf("the call with %q carries on %q", ignored, got)
		}
	}
	ask("a", sampled)
	if got := <-carried; !strings.HasPrefix(got, "00-"+traceID+"-") || strings.Contains(got, parentID) {
		t.Errorf("the policy's request has the traceparent %q", got)
	}
	ask("panics", sampled)
	stop()

	var spans []*tracepb.Span
	for len(spans) < 2 {
		select {
		case received := <-collector.received:
			if service := attributes(received.GetResource().GetAttributes())["service.name"]; service != "traced" {
				t.Errorf("the service is %q", service)
			}
			for _, scope := range received.GetScopeSpans() {
				spans = append(spans, scope.GetSpans()...)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("only %v were sent", spans)
		}
	}
	if len(spans) != 2 {
		t.Fatalf("%v", spans)
	}
	name := "extender.policy.v1beta1.PolicyService/Filter"
	want := map[string]string{
		"rpc.system.name": "grpc", "rpc.method": name, "rpc.response.status_code": "OK", "extender.policy.name": "traced",
		"extender.policy.revision": "7-a", "extender.backend.name": "quota", "extender.call.id": "c-9",
		"extender.nodes.evaluated": "1", "extender.nodes.rejected": "1", "acme.quota": "left",
	}
	if got := attributes(spans[0].GetAttributes()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attributes are %v; want %v", got, want)
	}
	if fmt.Sprintf("%x %x", spans[0].GetTraceId(), spans[0].GetParentSpanId()) != traceID+" "+parentID ||
		spans[0].GetName() != name || spans[0].GetKind() != tracepb.Span_SPAN_KIND_SERVER || spans[0].GetTraceState() != "a=1" {
		t.Errorf("%v", spans[0])
	}
	failed := attributes(spans[1].GetAttributes())
	if failed["error.type"] != "INTERNAL" || failed["rpc.response.status_code"] != "INTERNAL" ||
		spans[1].GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("%v", spans[1])
	}
}

func attributes(pairs []*commonpb.KeyValue) map[string]string {
	all := map[string]string{}
	for _, pair := range pairs {
		if value, is := pair.GetValue().GetValue().(*commonpb.AnyValue_IntValue); is {
			all[pair.GetKey()] = fmt.Sprint(value.IntValue)
		} else {
			all[pair.GetKey()] = pair.GetValue().GetStringValue()
		}
	}
	return all
}

// serve returns the address, and what stops the server and sends its spans.
func serve(t *testing.T, source policy.Source) (string, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	lines := make(lineWriter, 1)
	ended := make(chan error, 1)
	go func() { ended <- policy.Serve(ctx, source, policy.Options{Tracer: Traces(), Stdout: lines}) }()
	select {
	case line := <-lines:
		return strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	case err := <-ended:
		t.Fatal(err)
		return "", nil
	}
}

type lineWriter chan string

func (w lineWriter) Write(text []byte) (int, error) {
	w <- string(text)
	return len(text), nil
}

func TestWithoutAnEndpointNothingIsSetUp(t *testing.T) {
	for _, variables := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "not a url"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier pigeon"},
	} {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
			t.Setenv(name, variables[name])
		}
		traces := &tracer{}
		traces.Named("p", "1")
		if _, span := traces.Start(context.Background(), "m", fmt.Sprintf("00-%s-%s-01", traceID, parentID), ""); span != nil || traces.provider != nil {
			t.Errorf("%v: a span is recorded", variables)
		}
		if err := traces.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
