package io.extendergateway.policy;

import io.grpc.Metadata;
import io.grpc.Status;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** Counts and logs calls besides tracing them. It does not exist where no option wants that. */
final class Calls implements Trace.Tracer {
  private final Trace.Tracer spans;
  private final Metrics metrics;
  private final boolean logs;

  /** Without metrics, these are {@code null}. */
  Calls(Trace.Tracer spans, Metrics metrics, boolean logs) {
    this.spans = spans;
    this.metrics = metrics;
    this.logs = logs;
  }

  @Override
  public Trace begin(String method, Metadata headers) {
    String bare = method.substring(method.lastIndexOf('/') + 1);
    String verb = bare.equals(Outcomes.METHOD) ? Outcomes.VERB : bare;
    return new Recorded(spans.begin(method, headers), verb);
  }

  @Override
  public void end(Duration most) {
    spans.end(most);
  }

  /** A call, and what its line in the log says. */
  private final class Recorded implements Trace {
    private final Trace span;
    private final long begun = System.nanoTime();
    private String verb;
    private String subject = "";
    private String nodes = "";
    private String rejected = "";

    Recorded(Trace span, String verb) {
      this.span = span;
      this.verb = inSnakeCase(verb);
    }

    private static String inSnakeCase(String method) {
      return method.replaceAll("(?<=[a-z])(?=[A-Z])", "_").toLowerCase(Locale.ROOT);
    }

    @Override
    public void attribute(String key, String value) {
      switch (key) {
        case "extender.hook" -> verb = inSnakeCase(value);
        case "extender.call.id" -> subject = logs ? PodLogger.subject(value, "") : "";
        case "extender.miss" -> nodes = " miss=" + value;
        default -> {}
      }
      span.attribute(key, value);
    }

    @Override
    public void attribute(String key, long value) {
      if (key.equals("extender.nodes.rejected")) {
        rejected = " rejected=" + value;
      }
      span.attribute(key, value);
    }

    @Override
    public void about(Supplier<String> pod, int number) {
      if (logs) {
        subject = pod.get();
        nodes = number == 0 ? "" : " nodes=" + number;
      }
    }

    @Override
    public Scope enter() {
      return span.enter();
    }

    @Override
    public Executor around(Executor executor) {
      return span.around(executor);
    }

    @Override
    public void end(Status status) {
      span.end(status);
      long nanos = System.nanoTime() - begun;
      if (metrics != null) {
        metrics.count(verb, status.getCode(), nanos);
      }
      if (logs) {
        String text = PodLogger.shown(String.valueOf(status.getDescription()));
        Failures.LOG.log(
            System.Logger.Level.INFO,
            verb
                + (subject.isEmpty() ? "" : " " + subject)
                + nodes
                + (status.isOk()
                    ? rejected
                    : " code=%s message=%s".formatted(status.getCode(), text))
                + String.format(Locale.ROOT, " ms=%.3f", nanos / 1e6));
      }
    }
  }
}
