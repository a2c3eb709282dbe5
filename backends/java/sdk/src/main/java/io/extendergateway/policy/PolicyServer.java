package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.HookServiceGrpc;
import io.extendergateway.policy.v1beta1.IntrospectionServiceGrpc;
import io.extendergateway.policy.v1beta1.OutcomeServiceGrpc;
import io.extendergateway.policy.v1beta1.PolicyServiceGrpc;
import io.grpc.Codec;
import io.grpc.DecompressorRegistry;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.protobuf.services.ProtoReflectionServiceV1;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionHandler;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * A backend on a socket: PolicyService, HookService, NodeTableService, IntrospectionService,
 * OutcomeService, WatchService, health and reflection, from binding the address to the end of the
 * last call.
 *
 * <p>Three kinds of threads: the event loops of the HTTP/2 library only move bytes and answer
 * pings, so that a slow policy does not look like a dead machine; one thread for each processor
 * decodes requests and calls the policy, since its work needs a processor all the time and more
 * threads would only take turns; binds and introspections, which wait, have up to 64 and 16 threads
 * of their own, so that they never keep a filter waiting.
 */
public final class PolicyServer implements AutoCloseable {
  /** The largest message in bytes, in both directions: 5,000 nodes with their JSON fit. */
  static final int MAX_MESSAGE_BYTES = 64 << 20;

  /**
   * Of requests that are arriving or being answered, over all connections: two of the largest.
   * Without it a few clients that begin large messages and never end them take all memory.
   */
  private static final long MAX_BYTES_IN_PROGRESS = 2L * MAX_MESSAGE_BYTES;

  /** Exit status: a wrong command line. */
  private static final int BAD_USAGE = 2;

  /**
   * A gateway whose machine is gone no longer responds: its connection is closed, and its tables
   * are dropped.
   */
  private static final Duration KEEPALIVE = Duration.ofSeconds(60);

  private static final Duration KEEPALIVE_TIMEOUT = Duration.ofSeconds(20);

  /** How long a connection has to begin: a silent one takes a descriptor of the policy. */
  private static final Duration BEGINNING = Duration.ofSeconds(10);

  private static final Duration FLUSH = Duration.ofSeconds(5);

  /** Calls that the gateway cancels because they are decided without this backend: no attack. */
  private static final int MAX_RESETS = 10_000;

  private static final int MAX_CALLS_PER_CONNECTION = 1_000;
  private static final int MAX_BINDS = 64;

  /** A gateway sends at most 4 at a time. */
  private static final int MAX_INTROSPECTIONS = 16;

  /** After the last call, the connections have this long to close by themselves. */
  private static final int QUIET_ROUNDS = 5;

  /** Held, because the registry of loggers forgets those that nobody holds. */
  private static final Logger GRPC_LOG = Logger.getLogger("io.grpc");

  private static final String HELP =
      """
      Serves one policy to the extender gateway over gRPC.
        --address HOST:PORT    where to listen; port 0 takes a free one [default: 127.0.0.1:0]
        --tls-cert FILE        serve TLS with this certificate and its chain (PEM); needs --tls-key
        --tls-key FILE         the certificate's private key (PEM)
        --tls-client-ca FILE   clients must present a certificate of this authority (PEM)
        --allow-unauthenticated-bind
                               serve a policy that binds also beyond loopback without --tls-client-ca: anyone who
                               reaches the address may then bind pods
        --metrics-address HOST:PORT
                               serve GET /metrics there, in Prometheus' text format
        --log-calls            write a line to the log for each call
        --help                 prints this
      An option that is not given is taken from the environment, if the variable is not empty: EXTENDER_POLICY_ADDRESS,
      EXTENDER_POLICY_TLS_CERT, EXTENDER_POLICY_TLS_KEY, EXTENDER_POLICY_TLS_CLIENT_CA, EXTENDER_POLICY_METRICS_ADDRESS,
      and as true or false EXTENDER_POLICY_ALLOW_UNAUTHENTICATED_BIND and EXTENDER_POLICY_LOG_CALLS.
      Prints `listening on HOST:PORT` when it is ready. The TLS files are read again when they change. SIGTERM lets calls
      in progress finish, a second one ends at once.
      Calls that the gateway traces are continued, and their spans sent to an OpenTelemetry collector, where the standard
      variables name one, such as OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317.""";

  private final Server server;
  private final Service service;
  private final HealthStatusManager health;
  private final Metrics metrics;
  private final Trace.Tracer tracer;
  private final List<ExecutorService> executors;

  /** Compares for streams of Watch. */
  final ScheduledThreadPoolExecutor watches;

  private final Duration drain;
  private final String address;
  private final AtomicBoolean closed = new AtomicBoolean();

  private PolicyServer(Backend given, ServeOptions options) throws ServeException {
    InetSocketAddress wanted = resolve("--address", options.address);
    boolean isExposed =
        !wanted.getAddress().isLoopbackAddress()
            && options.tlsClientCa == null
            && !options.allowUnauthenticatedBind;
    Backend backend = isExposed ? given.exposedAt(options.address) : given;
    ScheduledThreadPoolExecutor timers = timers("timers");
    watches = timers("watches");
    int processors = Math.max(2, Runtime.getRuntime().availableProcessors());
    ThreadPoolExecutor calls =
        new ThreadPoolExecutor(
            processors,
            processors,
            0,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            threads("calls"));
    ExecutorService binds = waiting("binds", MAX_BINDS);
    ExecutorService introspections = waiting("introspections", MAX_INTROSPECTIONS);
    executors = List.of(timers, watches, calls, binds, introspections);
    drain = options.drain;
    Tables tables = new Tables();
    metrics = options.metricsAddress == null ? null : metrics(options, backend, tables);
    try {
      Trace.Tracer spans = tracer(backend, options);
      boolean isRecorded = metrics != null || options.logCalls;
      tracer = isRecorded ? new Calls(spans, metrics, options.logCalls) : spans;
      service =
          new Service(
              backend, tables, tracer, timers, watches, new Service.Waiters(binds, introspections));
      health = new HealthStatusManager();
      health.setStatus(HealthStatusManager.SERVICE_NAME_ALL_SERVICES, ServingStatus.SERVING);
      health.setStatus(PolicyServiceGrpc.SERVICE_NAME, ServingStatus.SERVING);
      ServerCredentials credentials =
          options.tlsCert == null
              ? InsecureServerCredentials.create()
              : Tls.credentials(options, timers);
      server = build(wanted, credentials, calls);
      address = start(options.address);
    } catch (ServeException | RuntimeException failure) {
      closeMetrics();
      executors.forEach(ExecutorService::shutdownNow);
      throw failure;
    }
  }

  private Server build(
      InetSocketAddress wanted, ServerCredentials credentials, ExecutorService calls) {
    InProgress inProgress = new InProgress(MAX_BYTES_IN_PROGRESS);
    return NettyServerBuilder.forAddress(wanted, credentials)
        .executor(calls)
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        .addStreamTracerFactory(inProgress)
        .intercept(inProgress)
        // A few compressed kilobytes become megabytes.
        .decompressorRegistry(
            DecompressorRegistry.emptyInstance().with(Codec.Identity.NONE, /* advertised= */ true))
        .handshakeTimeout(BEGINNING.toSeconds(), TimeUnit.SECONDS)
        .maxConcurrentCallsPerConnection(MAX_CALLS_PER_CONNECTION)
        .maxRstFramesPerWindow(MAX_RESETS, 10)
        .keepAliveTime(KEEPALIVE.toSeconds(), TimeUnit.SECONDS)
        .keepAliveTimeout(KEEPALIVE_TIMEOUT.toSeconds(), TimeUnit.SECONDS)
        .permitKeepAliveTime(1, TimeUnit.SECONDS)
        .permitKeepAliveWithoutCalls(true)
        .addService(service.unary(PolicyServiceGrpc.getServiceDescriptor()))
        .addService(service.tableService())
        .addService(service.unary(IntrospectionServiceGrpc.getServiceDescriptor()))
        .addService(service.unary(HookServiceGrpc.getServiceDescriptor()))
        .addService(service.unary(OutcomeServiceGrpc.getServiceDescriptor()))
        .addService(service.watchService())
        .addService(health.getHealthService())
        .addService(ProtoReflectionServiceV1.newInstance())
        .addService(earlierReflection())
        .build();
  }

  /** Several tools speak the earlier version only. */
  @SuppressWarnings("deprecation")
  private static io.grpc.BindableService earlierReflection() {
    return io.grpc.protobuf.services.ProtoReflectionService.newInstance();
  }

  private String start(String wanted) throws ServeException {
    try {
      server.start();
    } catch (IOException failure) {
      Throwable cause = failure;
      while (cause.getCause() != null) {
        cause = cause.getCause();
      }
      throw new ServeException(
          "cannot listen on %s: %s; set another --address, or stop the process that uses it"
              .formatted(wanted, cause.getMessage()),
          failure);
    }
    InetSocketAddress bound = (InetSocketAddress) server.getListenSockets().get(0);
    String host = bound.getAddress().getHostAddress();
    return (host.contains(":") ? "[" + host + "]" : host) + ":" + bound.getPort();
  }

  private static InetSocketAddress resolve(String option, String address) throws ServeException {
    try {
      ServeOptions.HostPort parsed = ServeOptions.HostPort.parse(option, address);
      return new InetSocketAddress(InetAddress.getByName(parsed.host()), parsed.port());
    } catch (UnknownHostException wrong) {
      throw new ServeException(
          "cannot listen on %s: the host is not known; set another %s".formatted(address, option),
          wrong);
    } catch (UsageException wrong) {
      throw new ServeException(wrong.getMessage(), wrong);
    }
  }

  private static Metrics metrics(ServeOptions options, Backend backend, Tables tables)
      throws ServeException {
    InetSocketAddress address = resolve("--metrics-address", options.metricsAddress);
    try {
      return new Metrics(address, backend, tables);
    } catch (NoClassDefFoundError absent) {
      throw new ServeException(
          "--metrics-address needs io.prometheus:prometheus-metrics-core and prometheus-metrics-exporter-httpserver "
              + "(the SDK is tested with 1.8.0) on the class path; add them, or remove the option",
          absent);
    } catch (IOException | RuntimeException failure) {
      throw new ServeException(
          "metrics cannot be served on %s: %s; set another --metrics-address"
              .formatted(options.metricsAddress, failure.getMessage()),
          failure);
    }
  }

  private static Trace.Tracer tracer(Backend backend, ServeOptions options) throws ServeException {
    boolean ofProcess = options.variables == null;
    Map<String, String> variables = ofProcess ? System.getenv() : options.variables;
    String endpoint =
        variables.getOrDefault(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            variables.getOrDefault("OTEL_EXPORTER_OTLP_ENDPOINT", ""));
    boolean off =
        "none".equals(variables.get("OTEL_TRACES_EXPORTER"))
            || "true".equalsIgnoreCase(variables.getOrDefault("OTEL_SDK_DISABLED", ""));
    if (endpoint.isBlank() || off) {
      return Trace.Tracer.NONE;
    }
    try {
      String service = backend.name().orElse("extender-policy");
      return OtelTracer.create(variables, ofProcess, service);
    } catch (NoClassDefFoundError absent) {
      Failures.LOG.log(
          System.Logger.Level.WARNING,
          "OTEL_EXPORTER_OTLP_ENDPOINT is set and no spans are sent: add"
              + " io.opentelemetry:opentelemetry-sdk-extension-autoconfigure and opentelemetry-exporter-otlp to the"
              + " class path");
      return Trace.Tracer.NONE;
    } catch (RuntimeException wrong) {
      throw new ServeException(
          "spans cannot be sent: %s; correct the OTEL_* variables".formatted(wrong.getMessage()),
          wrong);
    }
  }

  private static ScheduledThreadPoolExecutor timers(String name) {
    ScheduledThreadPoolExecutor timers = new ScheduledThreadPoolExecutor(1, threads(name));
    timers.setRemoveOnCancelPolicy(true);
    return timers;
  }

  /** For tasks that wait: one thread each, and no more than this many. */
  private static ExecutorService waiting(String name, int most) {
    RejectedExecutionHandler refuse =
        (task, executor) -> {
          throw CallException.of(
              io.grpc.Status.Code.UNAVAILABLE,
              "%d %s are in progress, the maximum".formatted(most, name));
        };
    return new ThreadPoolExecutor(
        0, most, 60, TimeUnit.SECONDS, new SynchronousQueue<>(), threads(name), refuse);
  }

  private static ThreadFactory threads(String name) {
    AtomicInteger number = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, "extender-policy-" + name + "-" + number.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /**
   * Runs a policy as a program, and ends the process: accepts the options that {@code --help}
   * lists. Exit statuses: 0 stopped by a signal, 1 failed to start, 2 wrong command line.
   */
  public static void run(String[] arguments, Source policy) {
    List<String> others = new ArrayList<>(Arrays.asList(arguments));
    try {
      if (others.contains("--help") || others.contains("-h")) {
        System.out.println(help());
        System.exit(0);
      }
      ServeOptions options = ServeOptions.take(others);
      if (!others.isEmpty()) {
        throw new UsageException(
            "unknown option %s; expected one of those below%n%n%s".formatted(others.get(0), HELP));
      }
      serve(policy, options);
      // Threads of the policy must not keep the process.
      System.exit(0);
    } catch (UsageException wrong) {
      exit(BAD_USAGE, wrong.getMessage());
    } catch (ServeException | DeclarationException failure) {
      exit(1, failure.getMessage());
    }
  }

  /** The text of {@code --help}, several lines, for a program with options of its own. */
  public static String help() {
    return HELP;
  }

  private static void exit(int status, String text) {
    System.err.println(text);
    System.exit(status);
  }

  /**
   * Serves until a stop signal: binds, prints one line {@code listening on ADDRESS} on stdout, and
   * answers. The first SIGTERM or SIGINT: health reports NOT_SERVING, no new calls are accepted,
   * calls in progress are finished for at most {@link ServeOptions#drain}, queued spans are sent
   * for at most 5 s, and this returns. A second signal ends the process at once.
   *
   * @throws ServeException if it cannot start
   */
  public static void serve(Source policy, ServeOptions options) throws ServeException {
    Backend backend = Backend.of(policy);
    quiet();
    WarmUp.run();
    Signals signals = Signals.watch();
    try (PolicyServer server = start(backend, options)) {
      System.out.println("listening on " + server.address());
      System.out.flush();
      signals.await();
    }
  }

  /**
   * The libraries log the trace of every unexpected frame, as often as a peer sends one. A program
   * with a configuration of its own decides itself.
   */
  private static void quiet() {
    boolean configured =
        System.getProperty("java.util.logging.config.file") != null
            || System.getProperty("java.util.logging.config.class") != null;
    if (!configured) {
      GRPC_LOG.setLevel(Level.SEVERE);
    }
  }

  /**
   * Serves in the background until {@link #close}, for tests and for programs with a life cycle of
   * their own.
   *
   * @throws ServeException if it cannot start
   */
  public static PolicyServer start(Source policy, ServeOptions options) throws ServeException {
    return new PolicyServer(Backend.of(policy), options);
  }

  /** Where it listens, {@code HOST:PORT}, with the port that was taken. */
  public String address() {
    return address;
  }

  /** How many streams of tables and of Watch are open. */
  int openStreams() {
    return service.openStreams();
  }

  /** The port of the metrics. */
  int metricsPort() {
    return metrics.port();
  }

  /**
   * Accepts no new calls, and returns when those in progress have finished, or were cancelled after
   * the drain time.
   */
  @Override
  public void close() {
    if (!closed.compareAndSet(false, true)) {
      return;
    }
    health.enterTerminalState();
    service.stop();
    server.shutdown();
    try {
      finish();
      server.shutdownNow().awaitTermination(1, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      server.shutdownNow();
      Thread.currentThread().interrupt();
    }
    tracer.end(FLUSH);
    closeMetrics();
    executors.forEach(ExecutorService::shutdownNow);
  }

  private void closeMetrics() {
    if (metrics != null) {
      metrics.close();
    }
  }

  /**
   * Streams of health and reflection may stay open for ever, so only calls of the policy are waited
   * for.
   */
  private void finish() throws InterruptedException {
    long end = System.nanoTime() + drain.toNanos();
    int quiet = 0;
    while (quiet < QUIET_ROUNDS && System.nanoTime() < end) {
      if (server.awaitTermination(50, TimeUnit.MILLISECONDS)) {
        return;
      }
      quiet = service.inProgress() == 0 ? quiet + 1 : 0;
    }
  }
}
