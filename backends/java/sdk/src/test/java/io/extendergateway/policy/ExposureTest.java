package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerStreamTracer;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What clients without a certificate can do to a backend whose address they reach. */
class ExposureTest {
  private static final Policy BINDER = new Declaring(Info.of("binder", "1").binds());
  private static final Policy FILTERS =
      new Declaring(Info.of("filters", "1").filters(Verb.perNode()));
  private static final ServeOptions OPEN = Served.OPTIONS.address("0.0.0.0:0");
  private static final String REFUSED =
      "0.0.0.0:0 is reached from other machines without a client certificate, and callers of this policy can bind pods";

  @Test
  void clientsWithoutACertificateGetNoPolicyThatBinds() throws Exception {
    ServeException refused =
        assertThrows(ServeException.class, () -> Served.of(Backend.of(BINDER), OPEN));
    assertTrue(refused.getMessage().startsWith(REFUSED), refused.getMessage());
    Served.of(BINDER).close();
    Served.of(Backend.of(BINDER), OPEN.allowUnauthenticatedBind()).close();
    Served.of(Backend.of(FILTERS), OPEN).close();
    // Whether one that is built from args binds is known when it is called.
    try (Served served = Served.of(Backend.configured(args -> BINDER), OPEN)) {
      Status status =
          Served.failure(() -> served.client.getInfo(GetInfoRequest.getDefaultInstance()));
      assertEquals(Status.Code.FAILED_PRECONDITION, status.getCode());
      assertTrue(status.getDescription().startsWith(REFUSED), status.getDescription());
    }
  }

  @Test
  void theOptionForBindersHasNoValue() throws Exception {
    List<String> arguments = new ArrayList<>(List.of("--allow-unauthenticated-bind", "other"));
    assertTrue(ServeOptions.take(arguments).allowUnauthenticatedBind);
    assertEquals(List.of("other"), arguments);
  }

  /** A call, and whether it was given up. */
  private static final class Call {
    final ServerStreamTracer tracer;
    final Context context;
    private final InProgress of;

    Call(InProgress of, String method) {
      this.of = of;
      tracer = of.newServerStreamTracer(method, new Metadata());
      context = tracer.filterContext(Context.ROOT);
    }

    /** The client ends its side. */
    void halfClose() throws Exception {
      ServerCall.Listener<Object> handler = new ServerCall.Listener<>() {};
      context
          .call(() -> of.interceptCall(null, new Metadata(), (call, headers) -> handler))
          .onHalfClose();
    }

    boolean isGivenUp() {
      return context.isCancelled();
    }
  }

  @Test
  void theLargestUnfinishedMessageIsGivenUp() throws Exception {
    InProgress of = new InProgress(100);
    Call large = new Call(of, "a/Filter");
    Call small = new Call(of, "a/Filter");
    Call other = new Call(of, "a/SyncNodes");
    large.tracer.inboundWireSize(60);
    small.tracer.inboundWireSize(30);
    other.tracer.inboundWireSize(20);
    assertTrue(large.isGivenUp() && !small.isGivenUp() && !other.isGivenUp());
    assertEquals(50, of.bytes());
    other.tracer.inboundMessageRead(0, 20, 20);
    small.tracer.inboundMessageRead(0, 30, 30);
    small.halfClose();
    assertEquals(30, of.bytes());
    Call later = new Call(of, "a/Filter");
    later.tracer.inboundWireSize(71);
    assertTrue(later.isGivenUp() && !small.isGivenUp());
    small.tracer.streamClosed(Status.OK);
    large.tracer.streamClosed(Status.CANCELLED);
    assertEquals(0, of.bytes());
  }

  @Test
  void aMessageIsUnfinishedUntilItsClientEndsItsSide() throws Exception {
    InProgress of = new InProgress(100);
    Call open = new Call(of, "a/Filter");
    open.tracer.inboundWireSize(60);
    open.tracer.inboundMessageRead(0, 60, 60);
    Call gateway = new Call(of, "a/Filter");
    gateway.tracer.inboundWireSize(41);
    assertTrue(open.isGivenUp() && !gateway.isGivenUp());
    gateway.halfClose();
    // Its stream stays open as long as its client wants.
    Call watch = new Call(of, "grpc.health.v1.Health/Watch");
    watch.tracer.inboundWireSize(50);
    watch.halfClose();
    new Call(of, "a/Filter").tracer.inboundWireSize(10);
    assertTrue(watch.isGivenUp() && !gateway.isGivenUp());
    assertEquals(51, of.bytes());
  }
}
