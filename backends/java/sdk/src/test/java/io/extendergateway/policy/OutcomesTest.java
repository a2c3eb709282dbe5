package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.testing.NoAnswerException;
import io.extendergateway.policy.testing.Testing;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.OutcomeKind;
import io.extendergateway.policy.v1beta1.OutcomeServiceGrpc;
import io.extendergateway.policy.v1beta1.Purpose;
import io.extendergateway.policy.v1beta1.ReportRequest;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Outcomes over a socket: what the policy observes, and what is refused without an effect. */
class OutcomesTest {
  private record Limit(@ArgDefault("5") int most) {}

  private final Queue<Outcome> observed = new ConcurrentLinkedQueue<>();
  private Served served;

  private final class Observer implements Policy {
    @Override
    public Info info() {
      return Info.of("observer", "1").filters(Verb.perNode()).observesOutcomes();
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return Verdict.accept();
    }

    @Override
    public void observe(Outcome outcome) throws Exception {
      if (outcome.name().equals("bug")) {
        throw new java.io.IOException("a broken pipe");
      }
      observed.add(outcome);
    }
  }

  @BeforeEach
  void serve() throws ServeException {
    served = Served.of(Backend.configured(Limit.class, limit -> new Observer()));
  }

  @AfterEach
  void stop() {
    served.close();
  }

  private static io.extendergateway.policy.v1beta1.Outcome.Builder outcome(int kind) {
    return io.extendergateway.policy.v1beta1.Outcome.newBuilder()
        .setCall("c1")
        .setNamespace("shop")
        .setName("web-1")
        .setUid("u1")
        .setKindValue(kind)
        .setNode(kind == OutcomeKind.OUTCOME_KIND_BOUND_VALUE ? "n1" : "");
  }

  private static ReportRequest.Builder request(int... kinds) {
    ReportRequest.Builder request = ReportRequest.newBuilder().setCall(Served.call().clearReads());
    for (int kind : kinds) {
      request.addOutcomes(outcome(kind));
    }
    return request;
  }

  private static void report(Served served, ReportRequest.Builder request) {
    var answer = OutcomeServiceGrpc.newBlockingStub(served.channel).report(request.build());
    assertEquals(0, answer.getSerializedSize());
  }

  @Test
  void outcomesAreObservedInTheirOrder() {
    var info = served.client.getInfo(GetInfoRequest.getDefaultInstance());
    assertTrue(info.getServicesList().contains(OutcomeServiceGrpc.SERVICE_NAME));
    report(served, request(3, 1, 77, 2, 4));
    assertEquals(
        List.of(
            Outcome.Kind.SUPERSEDED,
            Outcome.Kind.BOUND,
            Outcome.Kind.SUPERSEDED,
            Outcome.Kind.NOT_BOUND,
            Outcome.Kind.DELETED),
        observed.stream().map(Outcome::kind).toList());
    Outcome bound = new Outcome("c1", "shop", "web-1", "u1", Outcome.Kind.BOUND, Optional.of("n1"));
    assertTrue(observed.contains(bound));
  }

  @Test
  void aRequestThatIsInvalidHasNoEffect() {
    refused("call is missing", ReportRequest.Builder::clearCall);
    refused("call.purpose is missing", request -> request.getCallBuilder().clearPurpose());
    refused("outcomes is missing", ReportRequest.Builder::clearOutcomes);
    refused("outcomes[1].call is missing", request -> request.getOutcomesBuilder(1).clearCall());
    refused(
        "outcomes[1].namespace is missing",
        request -> request.getOutcomesBuilder(1).clearNamespace());
    refused("outcomes[1].name is missing", request -> request.getOutcomesBuilder(1).clearName());
    refused("outcomes[1].uid is missing", request -> request.getOutcomesBuilder(1).clearUid());
    refused("outcomes[1].kind is missing", request -> request.getOutcomesBuilder(1).clearKind());
    refused("outcomes[1].node is missing", request -> request.getOutcomesBuilder(1).clearNode());
    // Any purpose will do.
    ReportRequest.Builder shadow = request(2);
    shadow.getCallBuilder().setPurpose(Purpose.PURPOSE_SHADOW);
    report(served, shadow);
    assertEquals(1, observed.size());
  }

  private void refused(String text, Consumer<ReportRequest.Builder> mistake) {
    ReportRequest.Builder request = request(2, 1);
    mistake.accept(request);
    Status status = Served.failure(() -> report(served, request));
    assertEquals(Status.Code.INVALID_ARGUMENT, status.getCode(), status.toString());
    assertTrue(status.getDescription().startsWith(text), status.toString());
    assertTrue(observed.isEmpty());
  }

  @Test
  void argsComeOnce() {
    ByteString args = ByteString.copyFromUtf8("{\"most\":1}");
    ReportRequest.Builder named = request(2).setCall(Served.named(args));
    var unknown = assertThrows(StatusRuntimeException.class, () -> report(served, named));
    assertEquals("ERROR_REASON_ARGS_UNKNOWN", Served.reason(unknown.getTrailers()));
    assertTrue(observed.isEmpty());
    report(served, request(2).setCall(Served.call(args)));
    report(served, named);
    assertEquals(2, observed.size());
  }

  @Test
  void aFailureIsNotShown() {
    ReportRequest.Builder request = request(2);
    request.getOutcomesBuilder(0).setName("bug");
    Status status = Served.failure(() -> report(served, request));
    assertEquals(Status.Code.INTERNAL, status.getCode());
    assertEquals("observe failed (IOException); see the policy's log", status.getDescription());
  }

  @Test
  void outcomesThatAreNotDeclaredAreNotServed() throws ServeException {
    Policy policy = new Declaring(Info.of("p", "1").filters(Verb.perNode()));
    try (Served silent = Served.of(policy)) {
      var info = silent.client.getInfo(GetInfoRequest.getDefaultInstance());
      assertFalse(info.getServicesList().contains(OutcomeServiceGrpc.SERVICE_NAME));
      Status status = Served.failure(() -> report(silent, ReportRequest.newBuilder()));
      assertEquals(Status.Code.UNIMPLEMENTED, status.getCode(), status.toString());
    }
  }

  @Test
  void outcomesAreObservedWithoutAServer() {
    Outcome deleted =
        new Outcome("c1", "shop", "web-1", "u1", Outcome.Kind.DELETED, Optional.empty());
    Testing.observe(new Observer(), deleted, deleted);
    assertEquals(List.of(deleted, deleted), List.copyOf(observed));
    Outcome bug = new Outcome("c1", "shop", "bug", "u1", Outcome.Kind.DELETED, Optional.empty());
    var failure = assertThrows(NoAnswerException.class, () -> Testing.observe(new Observer(), bug));
    assertEquals("observe failed: a broken pipe", failure.getMessage());
  }
}
