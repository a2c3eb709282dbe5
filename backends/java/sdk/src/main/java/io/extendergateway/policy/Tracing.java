package io.extendergateway.policy;

import java.util.Optional;

/**
 * Adds to the span of the call that the current thread answers, without a dependency on
 * OpenTelemetry. A program that has OpenTelemetry on its class path can use its own API instead:
 * the span is the current one.
 */
public final class Tracing {
  private static volatile boolean available;

  private Tracing() {}

  /** Spans are sent: OpenTelemetry is on the class path. */
  static void available() {
    available = true;
  }

  /**
   * The call's span as a W3C {@code traceparent}, for requests that the policy makes during the
   * call; empty if the call is not traced.
   */
  public static Optional<String> traceparent() {
    return available ? Optional.ofNullable(OtelTracer.traceparent()) : Optional.empty();
  }

  /** Sets an attribute of the call's span. Use your own keys, such as {@code acme.quota.tenant}. */
  public static void attribute(String key, String value) {
    if (available) {
      OtelTracer.note(key, value);
    }
  }

  /** The same for a number. */
  public static void attribute(String key, long value) {
    if (available) {
      OtelTracer.note(key, value);
    }
  }
}
