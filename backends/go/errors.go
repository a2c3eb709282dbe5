package policy

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

// callError is why a call is not answered: a code of the contract's error table, which of the errors of that code it is, and a
// sentence for operators.
type callError struct {
	code   codes.Code
	reason v1beta1.ErrorReason
	text   string
}

func (e *callError) Error() string { return e.text }

// usualReasons are those of errors that name no other.
var usualReasons = map[codes.Code]v1beta1.ErrorReason{
	codes.InvalidArgument: v1beta1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
	codes.Unavailable:     v1beta1.ErrorReason_ERROR_REASON_NOT_READY,
	codes.Aborted:         v1beta1.ErrorReason_ERROR_REASON_CANNOT_ANSWER,
	codes.Internal:        v1beta1.ErrorReason_ERROR_REASON_POLICY_FAILED,
}

func refused(code codes.Code, format string, values ...any) error {
	return refusedFor(usualReasons[code], code, format, values...)
}

func refusedFor(reason v1beta1.ErrorReason, code codes.Code, format string, values ...any) error {
	return &callError{code: code, reason: reason, text: fmt.Sprintf(format, values...)}
}

// malformed is a request that is not as the contract says.
func malformed(format string, values ...any) error {
	return refused(codes.InvalidArgument, format, values...)
}

// wrongArgs are not those of the policy.
func wrongArgs(format string, values ...any) error {
	return refusedFor(v1beta1.ErrorReason_ERROR_REASON_INVALID_ARGS, codes.InvalidArgument, format, values...)
}

// missing is a field that every request has.
func missing(field string) error {
	return malformed("%s is missing; every request has it", field)
}

// CannotAnswer says that the policy cannot answer about this pod, although it can about others: the call fails with ABORTED,
// which says nothing about the calls about other pods, however long it took. [Bind] returns it. The other functions, which
// return no error, panic with it: such a panic is no bug and is not logged.
func CannotAnswer(format string, values ...any) error {
	return refused(codes.Aborted, format, values...)
}

// statusOf is the error as a client gets it. A status travels in the trailers: a client that limits their size, as the
// gateway does, closes the connection with all its calls.
func statusOf(err error) error {
	var known *statusError
	if err == nil || errors.As(err, &known) {
		return err
	}
	code := codeOf(err)
	reason := usualReasons[code]
	var call *callError
	if errors.As(err, &call) {
		reason = call.reason
	}
	return &statusError{status.Error(code, cut(valid(err.Error()), limits.StatusMessageBytes)), reason}
}

// statusError is a status with its reason, which travels in a trailer of its own.
type statusError struct {
	error
	reason v1beta1.ErrorReason
}

// GRPCStatus is for package status.
func (e *statusError) GRPCStatus() *status.Status { return status.Convert(e.error) }

// trailerOf is the trailer for an error of a call or a stream; none if it has no reason.
func trailerOf(err error) metadata.MD {
	var known *statusError
	if errors.As(err, &known) && known.reason != v1beta1.ErrorReason_ERROR_REASON_UNSPECIFIED {
		return metadata.Pairs("extender-reason", known.reason.String())
	}
	return nil
}

func codeOf(err error) codes.Code {
	var call *callError
	var declaration *DeclarationError
	switch {
	case errors.As(err, &call):
		return call.code
	case errors.As(err, &declaration):
		return codes.Internal
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	default:
		return codes.Internal
	}
}
