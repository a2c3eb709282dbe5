package collector

import (
	"context"
	"errors"
	"testing"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestATraceArrivesOverGRPC(t *testing.T) {
	ctx, c := started(t)
	if err := export(ctx, c.grpc.Address()); err != nil {
		t.Fatal(err)
	}
	if got := c.Received().Spans; len(got) != 1 || got[0].Name != "over gRPC" || got[0].SpanID != "382062797465732e" {
		t.Errorf("%+v", got)
	}
}

// export sends a span over gRPC to an address.
func export(ctx context.Context, address string) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	span := &tracepb.Span{TraceId: []byte("trace, 16 bytes."), SpanId: []byte("8 bytes."), Name: "over gRPC"}
	_, err = collectortrace.NewTraceServiceClient(connection).Export(ctx, &collectortrace.ExportTraceServiceRequest{
		ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{span}}}}},
	})
	return errors.Join(err, connection.Close())
}
