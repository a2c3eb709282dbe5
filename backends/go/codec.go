package policy

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/size"
)

// frame is a message that stays encoded when it arrives, so that its size is checked before it is decoded, and a broken
// one is answered with INVALID_ARGUMENT.
type frame struct{ encoded []byte }

// codec is gRPC's for protobuf, which also reads frames.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Unmarshal is called by gRPC.
func (c codec) Unmarshal(data mem.BufferSlice, into any) error {
	if frame, is := into.(*frame); is {
		frame.encoded = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, into)
}

// decode reads a message of the contract.
func (f *frame) decode(into proto.Message) error {
	if err := checkSize(size.Of(into), f.encoded); err != nil {
		return err
	}
	if err := proto.Unmarshal(f.encoded, into); err != nil {
		return malformed("the message cannot be decoded: %v", err)
	}
	return nil
}

func checkSize(shape *size.Shape, encoded []byte) error {
	err := shape.Check(encoded)
	if errors.Is(err, size.ErrTooLarge) {
		return refusedFor(v1beta1.ErrorReason_ERROR_REASON_TOO_LARGE, codes.ResourceExhausted,
			"the message has %d bytes; %v; send fewer and fuller entries", len(encoded), err)
	}
	if err != nil {
		return malformed("%v", fmt.Sprint(err))
	}
	return nil
}
