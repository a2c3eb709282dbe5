package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/intest"
	"extender-gateway.io/policy/internal/limits"
)

// Service answers the calls of the contract with the policies of a backend. It implements PolicyServiceServer,
// NodeTableServiceServer, IntrospectionServiceServer, HookServiceServer, OutcomeServiceServer and WatchServiceServer of package
// v1beta1. [Main] and [Serve] make one; a program with a gRPC server of its own makes it with [NewService] and registers it with
// [Service.Register].
type Service struct {
	v1beta1.UnimplementedPolicyServiceServer
	v1beta1.UnimplementedNodeTableServiceServer
	v1beta1.UnimplementedIntrospectionServiceServer
	v1beta1.UnimplementedHookServiceServer
	v1beta1.UnimplementedOutcomeServiceServer
	v1beta1.UnimplementedWatchServiceServer

	from   *Backend
	tables *tables
	tracer Tracer
	// metrics are nil if calls are not counted.
	metrics  Metrics
	logCalls bool
	log      *failureLog
	// inProgress are the calls that are being answered.
	inProgress atomic.Int64
	// showing has an entry for each page that is being shown.
	showing chan struct{}
	watches watches
	// controllers are nil if the backend has none.
	controllers Controllers
	// leads is the health of the controllers here.
	leads atomic.Bool
}

// NewService checks the declaration of the policy, if it is known before args come.
func NewService(source Source) (*Service, error) {
	from, err := source.backend()
	if err != nil {
		return nil, err
	}
	return &Service{
		from: from, tables: newTables(maxTables, maxTableBytes), log: &failureLog{logger: slog.Default()},
		showing: make(chan struct{}, pagesAtOnce),
	}, nil
}

// Register adds its services to a server that was made with [ServerOptions].
func (s *Service) Register(registrar grpc.ServiceRegistrar) {
	server := uncompressed{registrar}
	calls := v1beta1.PolicyService_ServiceDesc
	calls.Methods = []grpc.MethodDesc{
		unary(v1beta1.PolicyService_GetInfo_FullMethodName, (*Service).GetInfo),
		unary(v1beta1.PolicyService_Filter_FullMethodName, (*Service).Filter),
		unary(v1beta1.PolicyService_Score_FullMethodName, (*Service).Score),
		unary(v1beta1.PolicyService_Preempt_FullMethodName, (*Service).Preempt),
		unary(v1beta1.PolicyService_Bind_FullMethodName, (*Service).Bind),
	}
	server.RegisterService(&calls, s)
	v1beta1.RegisterNodeTableServiceServer(server, s)
	watching := v1beta1.WatchService_ServiceDesc
	watching.Streams = []grpc.StreamDesc{{StreamName: "Watch", Handler: watch, ServerStreams: true}}
	server.RegisterService(&watching, s)
	register := func(service grpc.ServiceDesc, method grpc.MethodDesc) {
		service.Methods = []grpc.MethodDesc{method}
		server.RegisterService(&service, s)
	}
	register(v1beta1.IntrospectionService_ServiceDesc, unary(v1beta1.IntrospectionService_Introspect_FullMethodName, (*Service).Introspect))
	register(v1beta1.HookService_ServiceDesc, unary(v1beta1.HookService_Change_FullMethodName, (*Service).Change))
	register(v1beta1.OutcomeService_ServiceDesc, unary(v1beta1.OutcomeService_Report_FullMethodName, (*Service).Report))
}

// isDecided says whether a method is a part of a decision, and so of its trace.
func isDecided(fullMethod string) bool {
	return fullMethod != v1beta1.PolicyService_GetInfo_FullMethodName &&
		fullMethod != v1beta1.IntrospectionService_Introspect_FullMethodName &&
		fullMethod != v1beta1.OutcomeService_Report_FullMethodName
}

// unary is a method whose message is decoded here and not by gRPC.
func unary[Q any, PQ interface {
	*Q
	proto.Message
}, A proto.Message](fullMethod string, answer func(*Service, context.Context, PQ) (A, error)) grpc.MethodDesc {
	name := strings.TrimPrefix(fullMethod, "/")
	handle := func(served any, ctx context.Context, receive func(any) error) (any, error) {
		service, message := served.(*Service), &frame{}
		service.inProgress.Add(1)
		defer service.inProgress.Add(-1)
		if err := receive(message); err != nil {
			return nil, err
		}
		var span Span = untraced{}
		if isDecided(fullMethod) {
			ctx, span = follow(ctx, service.tracer, name)
		}
		span, call := service.observe(span)
		ctx = context.WithValue(ctx, spanKey{}, span)
		request := PQ(new(Q))
		var response A
		err := guarded(service.log, path.Base(fullMethod), func() (err error) {
			if err = message.decode(request); err == nil {
				response, err = answer(service, ctx, request)
			}
			return err
		})
		err = statusOf(err)
		code, text := status.Code(err), status.Convert(err).Message()
		span.End(code, text)
		if call != nil {
			call.end(service, request, code, text)
		}
		if err != nil {
			_ = grpc.SetTrailer(ctx, trailerOf(err))
			return nil, err
		}
		return response, nil
	}
	return grpc.MethodDesc{MethodName: path.Base(fullMethod), Handler: func(
		served any, ctx context.Context, receive func(any) error, intercept grpc.UnaryServerInterceptor,
	) (any, error) {
		if intercept == nil {
			return handle(served, ctx, receive)
		}
		info := &grpc.UnaryServerInfo{Server: served, FullMethod: fullMethod}
		return intercept(ctx, nil, info, func(ctx context.Context, _ any) (any, error) { return handle(served, ctx, receive) })
	}}
}

type spanKey struct{}

// spanOf is the span of the call.
func spanOf(ctx context.Context) Span {
	if span, is := ctx.Value(spanKey{}).(Span); is {
		return span
	}
	return untraced{}
}

// failureLog writes each failure of the policy once for its text: one that happens in every call would flood the log.
type failureLog struct {
	logger *slog.Logger
	// inTest says that the author of the policy asks: texts are in errors, and stacks are printed.
	inTest bool
	mu     sync.Mutex
	// panics are the texts of panics, and wrongs those of wrong answers: neither hides the others.
	panics map[string]struct{}
	wrongs map[string]struct{}
}

// mostFailures bounds the texts of a kind that are remembered.
const mostFailures = 64

func init() { intest.Mark = func(service any) { service.(*Service).log.inTest = true } }

// isAuthors says whether the author of the policy reads what fails.
func (l *failureLog) isAuthors() bool { return l == nil || l.inTest }

func (l *failureLog) report(text string, stack []byte) {
	if l.isAuthors() {
		_, _ = fmt.Fprintf(os.Stderr, "the policy panicked: %s\n\n%s\n", text, stack)
	} else if l.isFirst(&l.panics, text) {
		l.logger.Error("the policy panicked; the call fails with INTERNAL, and later ones with this text are not logged",
			"panic", text, "stack", string(stack))
	}
}

// wrong writes an error if it says that the policy's answer breaks the contract, and returns it.
func (l *failureLog) wrong(err error) error {
	var call *callError
	if l != nil && errors.As(err, &call) && call.code == codes.Internal && l.isFirst(&l.wrongs, err.Error()) {
		l.logger.Error("the policy returned a wrong answer; the call fails with INTERNAL, and later ones with this text are not logged",
			"error", err)
	}
	return err
}

// isFirst says whether a text is to be written, and remembers it among those of its kind.
func (l *failureLog) isFirst(seen *map[string]struct{}, text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, is := (*seen)[text]; is || len(*seen) >= mostFailures {
		return false
	}
	if *seen == nil {
		*seen = map[string]struct{}{}
	}
	(*seen)[text] = struct{}{}
	return true
}

// failed is the error of a call, by the method of the contract. The text of a panic or of the policy's error may hold anything, and
// that of a status reaches people outside; that of a read that is not declared is this package's own.
func (l *failureLog) failed(code codes.Code, method string, why any) error {
	if _, is := why.(Undeclared); is || l.isAuthors() {
		return refused(code, "%s failed: %s", inSentence(method), cut(fmt.Sprint(why), limits.StatusMessageBytes))
	}
	return refused(code, "%s failed; see the policy's log", inSentence(method))
}

// inSentence is a method of the contract as texts name it, such as beforeFilter.
func inSentence(method string) string { return strings.ToLower(method[:1]) + method[1:] }

// guarded turns a panic of the policy into the error of this call: one pod that triggers a bug must not stop a cluster.
func guarded(log *failureLog, method string, work func() error) (err error) {
	defer func() {
		panicked := recover()
		if deliberate, is := panicked.(*callError); is {
			err = deliberate
		} else if panicked != nil {
			text := cut(fmt.Sprint(panicked), limits.StatusMessageBytes)
			log.report(text, debug.Stack())
			err = log.failed(codes.Internal, method, panicked)
		}
	}()
	return work()
}

// answered is guarded for a call of a verb or a hook, whose wrong answers are written, too. The error is as a client gets it.
func (s *Service) answered(verb verb, work func() error) error {
	return statusOf(guarded(s.log, verb.String(), func() error { return s.log.wrong(work()) }))
}
