package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"extender-gateway.io/policy/api/v1beta1"
)

const (
	// keepaliveTime is after how much silence a peer is asked whether it is there, and keepaliveTimeout how long it has to
	// answer: a table belongs to its stream, so a stream whose gateway is gone must end.
	keepaliveTime    = 60 * time.Second
	keepaliveTimeout = 20 * time.Second
	// keepaliveOften is how often clients may ask.
	keepaliveOften = 5 * time.Second
	// handshakeTimeout is how long a new connection has to begin.
	handshakeTimeout = 10 * time.Second
	// windowBytes is how much a client may send before it waits: a request with 500 nodes.
	windowBytes = 4 << 20

	defaultDrain = 10 * time.Second
	flushTimeout = 5 * time.Second
)

// Options are where and how a backend is served. The zero value listens on a free port of 127.0.0.1.
type Options struct {
	// Address is where to listen, such as "0.0.0.0:9000"; port 0 takes a free one. Default: 127.0.0.1:0.
	Address string
	// TLS are the files of a server with TLS.
	TLS TLSFiles
	// AllowUnauthenticatedBind serves a policy that binds also beyond loopback to clients without a certificate: whoever reaches
	// the address may then bind pods. Default: it is refused.
	AllowUnauthenticatedBind bool
	// Drain is how long calls in progress may take after the first signal. Default: 10 s.
	Drain time.Duration
	// Tracer records spans of traced calls; see package otlp. Nil: there are none.
	Tracer Tracer
	// Controllers are run in one replica at a time; see module extender-gateway.io/policy/controllers. Nil: there are none.
	Controllers Controllers
	// Metrics are served at MetricsAddress; see module extender-gateway.io/policy/metrics. Nil: there are none.
	Metrics Metrics
	// MetricsAddress is where GET /metrics is served, such as "0.0.0.0:9090". Empty: nowhere, and nothing is counted.
	MetricsAddress string
	// LogCalls writes a line to the log for each call.
	LogCalls bool
	// Logger is where problems are logged. Default: slog.Default(), which writes to stderr.
	Logger *slog.Logger
	// Stdout is where the line `listening on HOST:PORT` goes. Default: os.Stdout.
	Stdout io.Writer
}

// Option changes the options of [Main].
type Option func(*Options)

// WithTracer records spans of traced calls: policy.Main(NoArm(), policy.WithTracer(otlp.Traces())).
func WithTracer(tracer Tracer) Option { return func(o *Options) { o.Tracer = tracer } }

// WithControllers runs controllers in one replica at a time: policy.Main(quotas(), policy.WithControllers(elected)).
func WithControllers(controllers Controllers) Option {
	return func(o *Options) { o.Controllers = controllers }
}

// WithMetrics adds metrics to be served at --metrics-address: policy.Main(NoArm(), policy.WithMetrics(metrics.Prometheus())).
func WithMetrics(metrics Metrics) Option { return func(o *Options) { o.Metrics = metrics } }

// WithLogger replaces slog.Default.
func WithLogger(logger *slog.Logger) Option { return func(o *Options) { o.Logger = logger } }

func (o Options) withDefaults() Options {
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	return o
}

// ServerOptions are those that a gRPC server needs for [Service.Register]; [Serve] uses them.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.InitialWindowSize(windowBytes),
		grpc.InitialConnWindowSize(windowBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.InTapHandle(limitArrival),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveOften, PermitWithoutStream: true}),
	}
}

// Serve serves until SIGTERM or SIGINT, or until ctx ends: it listens, prints one line `listening on HOST:PORT` on stdout,
// answers, and then drains. Health reports NOT_SERVING, no new calls are accepted, calls in progress finish within
// Options.Drain, controllers stop, and queued spans are sent within 5 s. A second signal ends the process at once.
//
// The error says why it cannot start, or that the server or the controllers ended by themselves.
func Serve(ctx context.Context, source Source, options Options) error {
	bound, err := listen(source, options)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	if _, err := fmt.Fprintf(bound.options.Stdout, "listening on %s\n", bound.listener.Addr()); err != nil {
		bound.close()
		return fmt.Errorf("cannot start: cannot print the address: %w", err)
	}
	first, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		case <-ended:
			return
		}
		cancel()
		select {
		case <-signals:
			os.Exit(0)
		case <-ended:
		}
	}()
	return bound.serve(first)
}

// bound is a backend that listens but does not answer yet.
type bound struct {
	options  Options
	listener net.Listener
	service  *Service
	tls      *rotating
	// metrics are nil if none are served.
	metrics net.Listener
}

func listen(source Source, options Options) (*bound, error) {
	b := &bound{options: options.withDefaults()}
	service, err := NewService(source)
	if err != nil {
		return nil, err
	}
	b.service = service
	if b.options.isExposed() {
		if service.from, err = service.from.exposedAt(b.options.Address); err != nil {
			return nil, err
		}
	}
	service.tracer, service.log.logger, service.logCalls = b.options.Tracer, b.options.Logger, b.options.LogCalls
	if b.options.Controllers != nil {
		service.Announce(b.options.Controllers)
	}
	if b.options.Tracer != nil {
		name, version := "", ""
		if service.from.only != nil {
			known := service.from.only.newest().policy
			name, version = known.Name, known.Version
		}
		b.options.Tracer.Named(name, version)
	}
	if mistake := b.options.mistake(); mistake != "" {
		return nil, errors.New(mistake)
	}
	if b.options.TLS.Cert != "" {
		if b.tls, err = newRotating(b.options.TLS, b.options.Logger); err != nil {
			return nil, err
		}
	}
	if b.options.MetricsAddress != "" {
		if b.metrics, err = listenAt("--metrics-address", b.options.MetricsAddress); err != nil {
			return nil, err
		}
		service.metrics = b.options.Metrics
	}
	listener, err := listenAt("--address", b.options.Address)
	if err != nil {
		b.close()
		return nil, err
	}
	b.listener = &limited{Listener: listener, most: mostConnections(), logger: b.options.Logger}
	return b, nil
}

func listenAt(option, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; set another %s, or stop the process that uses it", address, reason(err), option)
	}
	return listener, nil
}

// close is for one that never answers.
func (b *bound) close() {
	for _, listener := range []net.Listener{b.listener, b.metrics} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// serve answers until ctx ends or the controllers fail, then drains.
func (b *bound) serve(ctx context.Context) error {
	watched := &watched{}
	transport := insecure.NewCredentials()
	if b.tls != nil {
		transport = credentials.NewTLS(b.tls.config())
	}
	counted := countedCredentials{TransportCredentials: transport, of: newProgress(maxBytesInProgress)}
	server := grpc.NewServer(append(ServerOptions(), grpc.StreamInterceptor(watched.intercept), grpc.Creds(counted))...)
	b.service.Register(server)
	status := health.NewServer()
	status.SetServingStatus(v1beta1.PolicyService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(uncompressed{server}, status)
	reflection.Register(struct {
		uncompressed
		reflection.ServiceInfoProvider
	}{uncompressed{server}, server})

	if b.metrics != nil {
		b.options.Logger.Info("metrics are served", "address", b.metrics.Addr().String())
		metrics := metricsServer(b.options.Metrics.Handler(b.service.metricsState), b.metrics, b.options.Logger)
		defer func() { _ = metrics.Close() }()
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(b.listener) }()
	controllers := b.service.runControllers(status)
	stop := func() {
		// They stop while calls in progress finish.
		controllers.stop()
		status.Shutdown()
		b.service.tables.stop()
		watched.end()
		b.drain(server)
	}
	var err error
	select {
	case err = <-served:
		err = errors.Join(fmt.Errorf("the server ended: %w", err), controllers.wait())
	case err = <-controllers.ended:
		stop()
	case <-ctx.Done():
		stop()
		err = controllers.wait()
	}
	b.flush()
	return err
}

// flush sends the queued spans.
func (b *bound) flush() {
	if b.options.Tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if lost := b.options.Tracer.Shutdown(ctx); lost != nil {
		b.options.Logger.Warn("the last spans were not sent", "error", lost)
	}
}

func (b *bound) drain(server *grpc.Server) {
	drained := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(b.options.Drain):
		if calls := b.service.inProgress.Load(); calls > 0 {
			noun := "calls"
			if calls == 1 {
				noun = "call"
			}
			b.options.Logger.Warn(fmt.Sprintf("%d %s did not end within %v s", calls, noun, b.options.Drain.Seconds()))
		}
		server.Stop()
	}
}

// watched are the streams that would delay draining until its limit, because they have no end of their own: health and
// reflection. Streams that fill tables end by themselves.
type watched struct {
	mu      sync.Mutex
	ended   bool
	cancels map[*context.CancelFunc]struct{}
}

// afterNews is how long watchers of health have to get NOT_SERVING before their stream ends.
const afterNews = 50 * time.Millisecond

func (w *watched) intercept(served any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if info.FullMethod == v1beta1.NodeTableService_SyncNodes_FullMethodName {
		return handler(served, stream)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	w.mu.Lock()
	if w.ended {
		cancel()
	}
	if w.cancels == nil {
		w.cancels = map[*context.CancelFunc]struct{}{}
	}
	w.cancels[&cancel] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.cancels, &cancel)
		w.mu.Unlock()
	}()
	done := make(chan error, 1)
	go func() { done <- handler(served, &endable{ServerStream: stream, ctx: ctx}) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		// A handler that waits for a message of its client does not look at the context; its stream ends with this return.
		select {
		case err := <-done:
			return err
		case <-time.After(afterNews):
			return ctx.Err()
		}
	}
}

func (w *watched) end() {
	time.Sleep(afterNews)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for cancel := range w.cancels {
		(*cancel)()
	}
}

// endable is a stream whose context ends before that of its client.
type endable struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endable) Context() context.Context { return s.ctx }
