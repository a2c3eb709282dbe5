package io.extendergateway.policy;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import io.extendergateway.policy.Backend.Prepared;
import io.extendergateway.policy.v1beta1.ErrorReason;
import io.extendergateway.policy.v1beta1.GetInfoResponse;
import io.extendergateway.policy.v1beta1.SyncNodesResponse;
import io.extendergateway.policy.v1beta1.WatchRequest;
import io.extendergateway.policy.v1beta1.WatchResponse;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.Status;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * The calls that stay open until their client or the server ends them: those that fill tables, and
 * those that wait for changes of the backend.
 */
final class Streams {
  /** Enough for 16 gateways with 16 backends each. */
  private static final int MAX_WATCHES = 256;

  private static final int COMPARE_MILLIS = 200;

  private final Backend backend;
  private final ScheduledExecutorService timers;
  private final ScheduledExecutorService comparing;
  private final Set<Open> open = ConcurrentHashMap.newKeySet();
  private final Semaphore watches = new Semaphore(MAX_WATCHES);
  private volatile boolean stopping;

  Streams(Backend backend, ScheduledExecutorService timers, ScheduledExecutorService comparing) {
    this.backend = backend;
    this.timers = timers;
    this.comparing = comparing;
  }

  /** How many are open. */
  int open() {
    return open.size();
  }

  /** Ends all of them, because open ones would delay the end of the server. */
  void stop() {
    stopping = true;
    open.forEach(Open::stop);
  }

  /** One of them. A {@link ServerCall} is not safe for several threads, so this guards it. */
  abstract class Open extends ServerCall.Listener<byte[]> {
    final ServerCall<byte[], Message> call;
    private boolean closed;

    private Open(ServerCall<byte[], Message> call) {
      this.call = call;
    }

    final Open begin() {
      call.sendHeaders(new Metadata());
      open.add(this);
      if (stopping) {
        stop();
      } else {
        call.request(1);
      }
      return this;
    }

    /** Drops what belongs to it; may be called again. */
    abstract void drop();

    final boolean isClosed() {
      return closed || call.isCancelled();
    }

    @Override
    public final void onCancel() {
      end();
    }

    @Override
    public final void onComplete() {
      end();
    }

    private void stop() {
      fail(CallException.of(Status.Code.UNAVAILABLE, "this backend is shutting down"));
    }

    final void fail(CallException failure) {
      close(failure.status(), failure.trailers());
    }

    final synchronized void close(Status status, Metadata trailers) {
      boolean wasOpen = !isClosed();
      // First, so that a peer that knows the end finds no table.
      end();
      if (wasOpen) {
        call.close(status, trailers);
      }
    }

    private synchronized void end() {
      closed = true;
      drop();
      open.remove(this);
    }
  }

  /** One message in, one acknowledgement out. The table is dropped with the stream. */
  final class TableFiller extends Open {
    private final Filling filling;

    TableFiller(ServerCall<byte[], Message> call, Filling filling) {
      super(call);
      this.filling = filling;
    }

    @Override
    public synchronized void onMessage(byte[] message) {
      if (isClosed()) {
        return;
      }
      try {
        long applied = filling.apply(message);
        call.sendMessage(SyncNodesResponse.newBuilder().setApplied(applied).build());
        call.request(1);
      } catch (RuntimeException | StackOverflowError failure) {
        fail(Failures.of(failure, call.getMethodDescriptor().getBareMethodName()));
      }
    }

    @Override
    public void onHalfClose() {
      close(Status.OK, new Metadata());
    }

    @Override
    void drop() {
      filling.end();
    }
  }

  /**
   * Sends a message at once, and one whenever GetInfo has another answer, or the policy is ready or
   * not.
   */
  final class Watch extends Open {
    /** Failures are those of this method. */
    private static final String GET_INFO = "GetInfo";

    /** By their digest: their policy is not built again each time if it is no longer known. */
    private NamedArgs args;

    private State sent;

    /** Whether this one is counted, as streams without a message are. */
    private boolean counted = watches.tryAcquire();

    /** Waits for the message, and then compares. */
    private Future<?> next =
        timers.schedule(() -> fail(Service.tooLate()), Service.ARRIVAL_SECONDS, TimeUnit.SECONDS);

    /** What a client learns changes of. */
    private record State(GetInfoResponse info, boolean isReady) {}

    Watch(ServerCall<byte[], Message> call) {
      super(call);
    }

    @Override
    public void onMessage(byte[] message) {
      try {
        if (!counted) {
          throw CallException.of(
                  Status.Code.RESOURCE_EXHAUSTED,
                  "%d streams of Watch are open, the maximum".formatted(MAX_WATCHES))
              .because(ErrorReason.ERROR_REASON_OVERLOADED);
        }
        NamedArgs given = NamedArgs.of(WatchRequest.parseFrom(message).getArgs());
        start(given, state(given));
      } catch (InvalidProtocolBufferException broken) {
        fail(Sizes.broken(broken));
      } catch (Exception | StackOverflowError | LinkageError | AssertionError failure) {
        fail(Failures.of(failure, GET_INFO));
      }
    }

    private synchronized void start(NamedArgs given, State state) {
      if (!isClosed()) {
        args = given.named();
        send(state);
        next.cancel(false);
        next =
            comparing.scheduleWithFixedDelay(
                this::compare, COMPARE_MILLIS, COMPARE_MILLIS, TimeUnit.MILLISECONDS);
      }
    }

    private State state(NamedArgs named) {
      Prepared policy = backend.policyFor(named);
      return new State(policy.declaration().response, policy.isReady());
    }

    /** Calls the policy without the lock, which the end of the server waits for. */
    private void compare() {
      // A client that does not read gets one message when it does.
      if (!call.isReady()) {
        return;
      }
      try {
        send(state(args));
      } catch (Exception | StackOverflowError | LinkageError | AssertionError failure) {
        // Nothing is known to have changed of a policy that a call has to bring the args for.
        if (!CallException.isBecause(failure, ErrorReason.ERROR_REASON_ARGS_UNKNOWN)) {
          fail(Failures.of(failure, GET_INFO));
        }
      }
    }

    private synchronized void send(State now) {
      if (!isClosed() && !now.equals(sent)) {
        sent = now;
        call.sendMessage(WatchResponse.getDefaultInstance());
      }
    }

    @Override
    public synchronized void onHalfClose() {
      if (args == null) {
        fail(CallException.invalid("the call has no message"));
      }
    }

    @Override
    void drop() {
      next.cancel(false);
      if (counted) {
        counted = false;
        watches.release();
      }
    }
  }
}
