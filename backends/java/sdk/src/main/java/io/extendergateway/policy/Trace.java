package io.extendergateway.policy;

import io.grpc.Metadata;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** The span of one call, if the gateway traces it. */
interface Trace {
  /** A call that is not traced. */
  Trace NONE = new Trace() {};

  default void attribute(String key, String value) {}

  default void attribute(String key, long value) {}

  /** What the call is about, in words, and how many nodes it has. */
  default void about(Supplier<String> pod, int nodes) {}

  /** Makes this the current span of the thread until the scope is closed. */
  default Scope enter() {
    return () -> {};
  }

  /** The same for tasks of another executor. */
  default Executor around(Executor executor) {
    return executor;
  }

  /** The call is over. */
  default void end(Status status) {}

  /** The time in which a span is current. */
  interface Scope extends AutoCloseable {
    @Override
    void close();
  }

  /** Makes spans. */
  interface Tracer {
    /** Records nothing. */
    Tracer NONE = new Tracer() {};

    /** Of a call of this method, with the name of its service. */
    default Trace begin(String method, Metadata headers) {
      return Trace.NONE;
    }

    /** Sends the queued spans, for at most this long. */
    default void end(Duration most) {}
  }
}
