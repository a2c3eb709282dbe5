package io.extendergateway.policy;

import io.grpc.Context;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerStreamTracer;
import io.grpc.Status;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;

/**
 * Bounds the bytes of requests that are in memory at a time, over all connections. Each message is
 * limited by itself, but many that are begun and not ended add up. Beyond the limit the call with
 * the largest unfinished one is cancelled: that of a gateway is complete in milliseconds. A call is
 * answered when its client has ended its side, so until then its message is unfinished.
 */
final class InProgress extends ServerStreamTracer.Factory implements ServerInterceptor {
  private static final Context.Key<Message> MESSAGE = Context.key("message");

  private final long limit;
  private final Set<Message> messages = new HashSet<>();
  private long bytes;

  InProgress(long limit) {
    this.limit = limit;
  }

  synchronized long bytes() {
    return bytes;
  }

  @Override
  public ServerStreamTracer newServerStreamTracer(String method, Metadata headers) {
    // Of a stream of messages each is taken over when it is complete; the one of a call is held
    // until the answer.
    boolean isStream =
        method.endsWith("/SyncNodes")
            || method.endsWith(".WatchService/Watch")
            || method.contains(".reflection.");
    return new Message(isStream, /* isAnswered= */ !isStream && !method.endsWith("/Watch"));
  }

  /** Tells of the end of the client's side, which a tracer does not see. */
  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
    Message message = MESSAGE.get();
    return new SimpleForwardingServerCallListener<>(next.startCall(call, headers)) {
      @Override
      public void onHalfClose() {
        complete(message);
        super.onHalfClose();
      }
    };
  }

  private Optional<Message> add(Message message, long more) {
    synchronized (this) {
      message.received += more;
      bytes += more;
      messages.add(message);
      if (bytes <= limit) {
        return Optional.empty();
      }
      Optional<Message> largest =
          messages.stream()
              .filter(one -> !one.isComplete)
              .max(Comparator.comparingLong(one -> one.received));
      largest.ifPresent(this::forget);
      return largest;
    }
  }

  private synchronized void complete(Message message) {
    message.isComplete = message.isAnswered;
  }

  private synchronized void forget(Message message) {
    bytes -= message.received;
    message.received = 0;
    messages.remove(message);
  }

  /** The message of a call, or the last one of a stream. */
  private final class Message extends ServerStreamTracer {
    final boolean isStream;

    /** Whether the end of the client's side leads to an answer that ends the call. */
    final boolean isAnswered;

    // Guarded by the factory.
    long received;
    boolean isComplete;
    private volatile Context.CancellableContext context;

    Message(boolean isStream, boolean isAnswered) {
      this.isStream = isStream;
      this.isAnswered = isAnswered;
    }

    @Override
    public Context filterContext(Context given) {
      context = given.withValue(MESSAGE, this).withCancellation();
      return context;
    }

    @Override
    public void inboundWireSize(long more) {
      add(this, more).ifPresent(Message::giveUp);
    }

    @Override
    public void inboundMessageRead(int number, long wireBytes, long messageBytes) {
      if (isStream) {
        forget(this);
      }
    }

    @Override
    public void streamClosed(Status status) {
      forget(this);
    }

    private void giveUp() {
      // The server ends a stream for a context with this status alone.
      Status late = Status.DEADLINE_EXCEEDED.withDescription("too many bytes of messages arrive");
      context.cancel(late.asRuntimeException());
    }
  }
}
