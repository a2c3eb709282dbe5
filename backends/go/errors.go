package policy

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"extender-gateway.io/policy/internal/limits"
)

// callError is why a call is not answered: a code of the contract's error table, and a sentence for operators.
type callError struct {
	code codes.Code
	text string
}

func (e *callError) Error() string { return e.text }

func refused(code codes.Code, format string, values ...any) error {
	return &callError{code: code, text: fmt.Sprintf(format, values...)}
}

// malformed is a request that is not as the contract says.
func malformed(format string, values ...any) error {
	return refused(codes.InvalidArgument, format, values...)
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
	if err == nil {
		return nil
	}
	return status.Error(codeOf(err), cut(valid(err.Error()), limits.StatusMessageBytes))
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
