package io.extendergateway.policy;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.v1beta1.ChangeRequest;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.IntrospectRequest;
import io.extendergateway.policy.v1beta1.NodeTableServiceGrpc;
import io.extendergateway.policy.v1beta1.ReportRequest;
import io.extendergateway.policy.v1beta1.WatchServiceGrpc;
import io.grpc.KnownLength;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServiceDescriptor;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The contract's services over {@link Answer}: transport only. Handled without the generated
 * service bases, which decode a request before its size is checked.
 */
final class Service {
  /**
   * Longer than the deadline that a gateway gives any call except a bind, whose message is small.
   */
  static final long ARRIVAL_SECONDS = 10;

  private final Questions questions;
  private final Map<String, Verb> verbs;
  private final Tables tables;
  private final Trace.Tracer tracer;
  private final ScheduledExecutorService timers;
  private final AtomicInteger inProgress = new AtomicInteger();
  private final Streams streams;

  /** Run what may wait, each apart from the others: nobody's look at a policy delays a bind. */
  record Waiters(Executor binds, Executor introspections) {}

  /**
   * Timers end messages that do not arrive; the other ones compare, and the policy may make them
   * wait.
   */
  Service(
      Backend backend,
      Tables tables,
      Trace.Tracer tracer,
      ScheduledExecutorService timers,
      ScheduledExecutorService comparing,
      Waiters waiters) {
    questions = new Questions(backend, tables);
    verbs = verbs(backend, waiters);
    this.tables = tables;
    this.tracer = tracer;
    this.timers = timers;
    streams = new Streams(backend, timers, comparing);
  }

  /** Answers an encoded request, at once or by a future. */
  private interface Verb {
    Object answer(byte[] request, Trace trace) throws Exception;
  }

  /** All methods with one request and one answer. */
  private Map<String, Verb> verbs(Backend backend, Waiters waiters) {
    Answer answer = new Answer(backend, questions, waiters.binds);
    Introspections introspections = new Introspections(backend, waiters.introspections);
    Map<String, Verb> verbs = new HashMap<>();
    Message infoRequest = GetInfoRequest.getDefaultInstance();
    verbs.put(
        "GetInfo",
        (message, trace) ->
            answer.info((GetInfoRequest) decode(message, Sizes.Shape.GET_INFO, infoRequest)));
    Message showRequest = IntrospectRequest.getDefaultInstance();
    verbs.put(
        "Introspect",
        (message, trace) ->
            introspections.answer(
                (IntrospectRequest) decode(message, Sizes.Shape.INTROSPECT, showRequest)));
    Message reportRequest = ReportRequest.getDefaultInstance();
    verbs.put(
        Outcomes.METHOD,
        (message, trace) -> {
          Policy observer = Outcomes.observer(backend, Wire.args(message));
          var request = (ReportRequest) decode(message, Sizes.Shape.REPORT, reportRequest);
          trace.attribute("extender.call.id", request.getCall().getId());
          return Outcomes.answer(request, observer);
        });
    for (Kind kind : Kind.values()) {
      if (!kind.isHook()) {
        verbs.put(
            kind.method,
            (message, trace) -> {
              questions.admit(List.of(kind), message);
              return answer.answer(kind, Asked.decode(message, kind.shape, kind.request), trace);
            });
      }
    }
    Message changeRequest = ChangeRequest.getDefaultInstance();
    verbs.put(
        Kind.HOOK_METHOD,
        (message, trace) -> {
          List<Kind> hooks = Kind.hooks(Wire.hook(message));
          if (hooks.size() == 1) {
            trace.attribute("extender.hook", Failures.inSentence(hooks.get(0).method));
          }
          questions.admit(hooks, message);
          Asked asked = Asked.decode(message, Sizes.Shape.QUESTION, changeRequest);
          return answer.answer(Questions.hook((ChangeRequest) asked.request), asked, trace);
        });
    return verbs;
  }

  /** A service whose methods have one request and one answer. */
  ServerServiceDefinition unary(ServiceDescriptor service) {
    return define(
        service,
        method -> {
          Verb verb = verbs.get(method);
          return (call, headers) -> new Unary(call, verb, headers);
        });
  }

  ServerServiceDefinition tableService() {
    return define(
        NodeTableServiceGrpc.getServiceDescriptor(),
        method -> (call, headers) -> streams.new TableFiller(call, new Filling(tables)).begin());
  }

  ServerServiceDefinition watchService() {
    return define(
        WatchServiceGrpc.getServiceDescriptor(),
        method -> (call, headers) -> streams.new Watch(call).begin());
  }

  /** How many streams are open. */
  int openStreams() {
    return streams.open();
  }

  /** How many calls of the policy are in progress. */
  int inProgress() {
    return inProgress.get();
  }

  /**
   * Ends all streams, because open ones would delay the end. The tables stay for the calls that
   * still arrive.
   */
  void stop() {
    tables.stop();
    streams.stop();
  }

  private static Message decode(byte[] message, Sizes.Shape shape, Message type) {
    Sizes.check(message, shape);
    try {
      return type.getParserForType().parseFrom(message);
    } catch (InvalidProtocolBufferException broken) {
      throw Sizes.broken(broken);
    }
  }

  static CallException tooLate() {
    return CallException.of(
        Status.Code.DEADLINE_EXCEEDED,
        "the message did not arrive within %ds".formatted(ARRIVAL_SECONDS));
  }

  /** What handles the calls of a method. */
  private interface Handlers {
    ServerCallHandler<byte[], Message> of(String method);
  }

  private static ServerServiceDefinition define(ServiceDescriptor service, Handlers handlers) {
    ServiceDescriptor.Builder descriptor =
        ServiceDescriptor.newBuilder(service.getName())
            .setSchemaDescriptor(service.getSchemaDescriptor());
    Map<String, MethodDescriptor<byte[], Message>> methods = new HashMap<>();
    for (MethodDescriptor<?, ?> method : service.getMethods()) {
      MethodDescriptor<byte[], Message> encoded =
          method.toBuilder(new Bytes(), new Messages()).build();
      methods.put(method.getBareMethodName(), encoded);
      descriptor.addMethod(encoded);
    }
    ServerServiceDefinition.Builder definition =
        ServerServiceDefinition.builder(descriptor.build());
    methods.forEach((name, method) -> definition.addMethod(method, handlers.of(name)));
    return definition.build();
  }

  /** A request as it comes. */
  private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] value) {
      return new ByteArrayInputStream(value);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream instanceof KnownLength
            ? stream.readNBytes(stream.available())
            : stream.readAllBytes();
      } catch (IOException broken) {
        throw new UncheckedIOException(broken);
      }
    }
  }

  /** A response; the server decodes none. */
  private static final class Messages implements MethodDescriptor.Marshaller<Message> {
    @Override
    public InputStream stream(Message value) {
      return io.grpc.protobuf.ProtoUtils.marshaller(value).stream(value);
    }

    @Override
    public Message parse(InputStream stream) {
      throw new UnsupportedOperationException();
    }
  }

  /** A call with one message and one answer. */
  private final class Unary extends ServerCall.Listener<byte[]> {
    private final ServerCall<byte[], Message> call;
    private final Verb verb;
    private final Trace trace;
    private final Future<?> arrival;
    private byte[] message;

    /** The future answer of a bind or an introspection. */
    private volatile Future<?> working;

    /** Guarded by this; a {@link ServerCall} is not safe for several threads. */
    private boolean closed;

    Unary(ServerCall<byte[], Message> call, Verb verb, Metadata headers) {
      this.call = call;
      this.verb = verb;
      MethodDescriptor<byte[], Message> method = call.getMethodDescriptor();
      trace = tracer.begin(method.getFullMethodName(), headers);
      inProgress.incrementAndGet();
      arrival = timers.schedule(this::late, ARRIVAL_SECONDS, TimeUnit.SECONDS);
      call.request(2);
    }

    private void late() {
      fail(tooLate());
    }

    @Override
    public void onMessage(byte[] received) {
      if (message != null) {
        fail(CallException.invalid("the call has more than one message"));
      }
      message = received;
    }

    @Override
    public void onHalfClose() {
      arrival.cancel(false);
      if (message == null) {
        fail(CallException.invalid("the call has no message"));
        return;
      }
      byte[] request = message;
      // Not to be kept while the answer is waited for.
      message = new byte[0];
      // A caller that has gone needs no answer.
      if (call.isCancelled()) {
        return;
      }
      Trace.Scope scope = trace.enter();
      try {
        Object answered = verb.answer(request, trace);
        if (answered instanceof CompletionStage<?> later) {
          wait(later);
        } else {
          reply((Message) answered);
        }
      } catch (Exception | StackOverflowError | LinkageError | AssertionError failure) {
        fail(failed(failure, request));
      } finally {
        scope.close();
      }
    }

    private CallException failed(Throwable failure, byte[] request) {
      String method = call.getMethodDescriptor().getBareMethodName();
      return Failures.of(failure, Kind.named(method, request));
    }

    private void wait(CompletionStage<?> later) {
      working = later.toCompletableFuture();
      if (call.isCancelled()) {
        working.cancel(true);
      }
      later.whenComplete(
          (answered, failure) -> {
            if (failure == null) {
              reply((Message) answered);
            } else if (!call.isCancelled()) {
              fail(Failures.of(failure, call.getMethodDescriptor().getBareMethodName()));
            }
          });
    }

    private synchronized void reply(Message answered) {
      if (!closed && !call.isCancelled()) {
        closed = true;
        call.sendHeaders(new Metadata());
        call.sendMessage(answered);
        end(Status.OK, new Metadata());
      }
    }

    private synchronized void fail(CallException failure) {
      if (!closed && !call.isCancelled()) {
        closed = true;
        end(failure.status(), failure.trailers());
      }
    }

    private void end(Status status, Metadata trailers) {
      // First, so that a client that knows the end finds its call in the metrics.
      trace.end(status);
      call.close(status, trailers);
    }

    @Override
    public void onComplete() {
      arrival.cancel(false);
      inProgress.decrementAndGet();
    }

    @Override
    public void onCancel() {
      arrival.cancel(false);
      inProgress.decrementAndGet();
      Future<?> begun = working;
      if (begun != null) {
        begun.cancel(true);
      }
      synchronized (this) {
        if (!closed) {
          closed = true;
          trace.end(Status.CANCELLED);
        }
      }
    }
  }
}
