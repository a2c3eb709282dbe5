package io.extendergateway.policy;

import io.grpc.Metadata;
import io.grpc.Status;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import io.opentelemetry.sdk.common.CompletableResultCode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/**
 * Traces by the OpenTelemetry SDK. Loaded only where that is on the class path and a collector is
 * named.
 */
final class OtelTracer implements Trace.Tracer {
  private static final Metadata.Key<String> TRACEPARENT =
      Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);

  /** The gateway sends no trace with these. */
  private static final Set<String> UNTRACED = Set.of("GetInfo", "Introspect", Outcomes.METHOD);

  private static final TextMapGetter<Metadata> HEADERS =
      new TextMapGetter<>() {
        // Still without a default, so it has to be there.
        @SuppressWarnings("deprecation")
        @Override
        public Iterable<String> keys(Metadata headers) {
          return headers.keys();
        }

        @Override
        public String get(Metadata headers, String key) {
          if (headers == null) {
            return null;
          }
          Iterable<String> all =
              headers.getAll(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER));
          return all == null ? null : String.join(",", all);
        }
      };

  private final OpenTelemetrySdk sdk;
  private final io.opentelemetry.api.trace.Tracer tracer;

  private OtelTracer(OpenTelemetrySdk sdk) {
    this.sdk = sdk;
    Tracing.available();
    tracer = sdk.getTracer("io.extendergateway.policy");
  }

  /** By these variables, which are those of the process if {@code ofProcess}. */
  static Trace.Tracer create(Map<String, String> variables, boolean ofProcess, String service) {
    Map<String, String> properties = new HashMap<>();
    variables.forEach(
        (name, value) -> {
          if (name.startsWith("OTEL_")) {
            properties.put(name.toLowerCase(Locale.ROOT).replace('_', '.'), value);
          }
        });
    Map<String, String> defaults = new HashMap<>();
    defaults.put("otel.service.name", service);
    defaults.put("otel.exporter.otlp.protocol", protocol(properties));
    Map<String, String> fixed = new HashMap<>();
    // Only spans are sent.
    fixed.put("otel.metrics.exporter", "none");
    fixed.put("otel.logs.exporter", "none");
    if (!ofProcess) {
      fixed.putAll(properties);
    }
    AutoConfiguredOpenTelemetrySdk configured =
        AutoConfiguredOpenTelemetrySdk.builder()
            .disableShutdownHook()
            .addPropertiesSupplier(() -> defaults)
            .addPropertiesCustomizer(given -> fixed)
            .build();
    return new OtelTracer(configured.getOpenTelemetrySdk());
  }

  private static String protocol(Map<String, String> properties) {
    String endpoint = properties.get("otel.exporter.otlp.traces.endpoint");
    if (endpoint == null) {
      endpoint = properties.getOrDefault("otel.exporter.otlp.endpoint", "");
    }
    boolean grpc = endpoint.endsWith(":4317") || endpoint.endsWith(":4317/");
    return grpc ? "grpc" : "http/protobuf";
  }

  @Override
  public Trace begin(String method, Metadata headers) {
    String bare = method.substring(method.lastIndexOf('/') + 1);
    if (!headers.containsKey(TRACEPARENT) || UNTRACED.contains(bare)) {
      return Trace.NONE;
    }
    Context caller =
        W3CTraceContextPropagator.getInstance().extract(Context.root(), headers, HEADERS);
    SpanContext parent = Span.fromContext(caller).getSpanContext();
    if (!parent.isValid() || !parent.isSampled()) {
      return Trace.NONE;
    }
    Span span =
        tracer
            .spanBuilder(method)
            .setParent(caller)
            .setSpanKind(SpanKind.SERVER)
            .setAttribute("rpc.system.name", "grpc")
            .setAttribute("rpc.method", method)
            .startSpan();
    return new Traced(span, caller.with(span));
  }

  @Override
  public void end(Duration most) {
    CompletableResultCode flushed = sdk.getSdkTracerProvider().forceFlush();
    flushed.join(most.toMillis(), TimeUnit.MILLISECONDS);
    sdk.shutdown().join(1, TimeUnit.SECONDS);
  }

  /** The current span as a {@code traceparent}; {@code null} if there is none. */
  static String traceparent() {
    SpanContext current = Span.current().getSpanContext();
    return current.isValid()
        ? "00-%s-%s-%s"
            .formatted(current.getTraceId(), current.getSpanId(), current.getTraceFlags().asHex())
        : null;
  }

  static void note(String key, String value) {
    Span.current().setAttribute(key, value);
  }

  static void note(String key, long value) {
    Span.current().setAttribute(key, value);
  }

  private record Traced(Span span, Context context) implements Trace {
    /** A call that the gateway cancels because it is decided without it is not an error. */
    private static final List<Status.Code> NO_ERRORS =
        List.of(Status.Code.OK, Status.Code.CANCELLED);

    @Override
    public void attribute(String key, String value) {
      span.setAttribute(key, value);
    }

    @Override
    public void attribute(String key, long value) {
      span.setAttribute(key, value);
    }

    // Closed by the scope that is returned.
    @SuppressWarnings("MustBeClosedChecker")
    @Override
    public Scope enter() {
      io.opentelemetry.context.Scope scope = context.makeCurrent();
      return scope::close;
    }

    @Override
    public Executor around(Executor executor) {
      return context.wrap(executor);
    }

    @Override
    public void end(Status status) {
      String code = status.getCode().name();
      span.setAttribute("rpc.response.status_code", code);
      if (!NO_ERRORS.contains(status.getCode())) {
        span.setAttribute("error.type", code);
        String text = status.getDescription() == null ? "" : status.getDescription();
        span.setStatus(StatusCode.ERROR, code + ": " + text);
      }
      span.end();
    }
  }
}
