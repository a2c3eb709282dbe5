// Package size estimates the memory of a message before it is decoded: an empty message of two bytes on the wire can
// become a struct of hundreds.
package size

import (
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"extender-gateway.io/policy/api/v1beta1"
)

const (
	// base is what every message may take, whatever its length: enough for thousands of small rows.
	base = 4 << 20
	// perByte is what a message may take for each of its bytes.
	perByte = 32
	// text is the header of a string in a list that grows.
	text = 2 * 16
	// mapEntry is an entry of a map of texts, which is at least half full.
	mapEntry = 128
)

// Errors of Check.
var (
	// ErrBroken is a message that is not proto3.
	ErrBroken = errors.New("the message cannot be decoded: it ends inside a field, or has a field that proto3 does not know")
	// ErrTooLarge is a message whose decoded form would be out of proportion.
	ErrTooLarge = errors.New("the message would take too much memory decoded")
)

// Empty is a list with an empty entry, which a gateway never sends.
type Empty string

// Error names the list.
func (e Empty) Error() string {
	return fmt.Sprintf("%s has an empty entry; each entry has content", string(e))
}

// Shape is what is known of a message.
type Shape struct {
	fields []field
}

type field struct {
	// bytes is the memory of each occurrence, besides its own bytes.
	bytes int
	// numbers says that bytes is for each number of a packed list.
	numbers bool
	// message is the shape of what the field contains; nil for texts and numbers.
	message *Shape
	// element is the name of a list whose elements are not empty.
	element string
}

// elements are the lists whose entries are not empty. Rows of nodes are none of them: those for a verb that reads nothing of nodes are.
var elements = map[protoreflect.FullName]string{
	"extender.policy.v1beta1.PreemptRequest.candidates": "candidates",
	"extender.policy.v1beta1.Candidate.victims":         "victims",
	"extender.policy.v1beta1.SyncNodesRequest.upserts":  "upserts",
}

var shapes = map[protoreflect.FullName]*Shape{}

func init() {
	for _, file := range []protoreflect.FileDescriptor{
		v1beta1.File_extender_policy_v1beta1_info_proto, v1beta1.File_extender_policy_v1beta1_policy_proto,
		v1beta1.File_extender_policy_v1beta1_table_proto, v1beta1.File_extender_policy_v1beta1_node_proto,
		v1beta1.File_extender_policy_v1beta1_introspection_proto, v1beta1.File_extender_policy_v1beta1_hooks_proto,
		v1beta1.File_extender_policy_v1beta1_outcomes_proto, v1beta1.File_extender_policy_v1beta1_watch_proto,
	} {
		for position := range file.Messages().Len() {
			shapeOf(file.Messages().Get(position))
		}
	}
}

// Of is the shape of a message of the contract.
func Of(message proto.Message) *Shape { return shapes[message.ProtoReflect().Descriptor().FullName()] }

func shapeOf(of protoreflect.MessageDescriptor) *Shape {
	if known, is := shapes[of.FullName()]; is {
		return known
	}
	shape := &Shape{}
	shapes[of.FullName()] = shape
	for position := range of.Fields().Len() {
		descriptor := of.Fields().Get(position)
		number := int(descriptor.Number())
		for len(shape.fields) <= number {
			shape.fields = append(shape.fields, field{})
		}
		shape.fields[number] = fieldOf(descriptor)
	}
	return shape
}

func fieldOf(of protoreflect.FieldDescriptor) field {
	switch {
	case of.IsMap():
		return field{bytes: mapEntry}
	case of.Message() != nil:
		bytes := structBytes(of.Message())
		if of.IsList() {
			bytes += 2 * 8
		}
		return field{bytes: bytes, message: shapeOf(of.Message()), element: elements[of.FullName()]}
	case !of.IsList():
		return field{}
	case of.Kind() == protoreflect.StringKind || of.Kind() == protoreflect.BytesKind:
		return field{bytes: text}
	default:
		return field{bytes: 2 * 4, numbers: true}
	}
}

// structBytes is the size of a message's struct.
func structBytes(of protoreflect.MessageDescriptor) int {
	found, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		return 256
	}
	return int(reflect.TypeOf(found.Zero().Interface()).Elem().Size())
}

// Check rejects a message that would take much more memory than its bytes, or that has empty entries. It allocates nothing
// and reads each byte at most once for each level of nesting.
func (s *Shape) Check(encoded []byte) error {
	left := len(encoded)*perByte + base
	return s.take(encoded, &left)
}

// Estimate is the memory that a message takes decoded.
func (s *Shape) Estimate(encoded []byte) int {
	const most = 1 << 60
	left := most
	_ = s.take(encoded, &left)
	return len(encoded) + most - left
}

func (s *Shape) take(encoded []byte, left *int) error {
	for len(encoded) > 0 {
		number, kind, length := protowire.ConsumeTag(encoded)
		if length < 0 {
			return ErrBroken
		}
		encoded = encoded[length:]
		var inner []byte
		switch kind {
		case protowire.BytesType:
			inner, length = protowire.ConsumeBytes(encoded)
		case protowire.StartGroupType, protowire.EndGroupType:
			return ErrBroken
		default:
			length = protowire.ConsumeFieldValue(number, kind, encoded)
		}
		if length < 0 {
			return ErrBroken
		}
		encoded = encoded[length:]
		if int(number) < len(s.fields) {
			if err := s.fields[number].take(kind, inner, left); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *field) take(kind protowire.Type, inner []byte, left *int) error {
	occurrences := 1
	if f.numbers && kind == protowire.BytesType {
		occurrences = 0
		for _, b := range inner {
			// The last byte of each number has its highest bit clear.
			if b < 0x80 {
				occurrences++
			}
		}
	}
	*left -= f.bytes * occurrences
	if *left < 0 {
		return ErrTooLarge
	}
	if f.message == nil || kind != protowire.BytesType {
		return nil
	}
	if f.element != "" && len(inner) == 0 {
		return Empty(f.element)
	}
	return f.message.take(inner, left)
}
