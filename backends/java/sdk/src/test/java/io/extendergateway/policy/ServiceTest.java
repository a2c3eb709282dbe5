package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.BindOutcome;
import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.Candidate;
import io.extendergateway.policy.v1beta1.FilterRequest;
import io.extendergateway.policy.v1beta1.FilterResponse;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.Miss;
import io.extendergateway.policy.v1beta1.Nodes;
import io.extendergateway.policy.v1beta1.PreemptRequest;
import io.extendergateway.policy.v1beta1.Purpose;
import io.extendergateway.policy.v1beta1.RejectionKind;
import io.extendergateway.policy.v1beta1.Result;
import io.extendergateway.policy.v1beta1.ScoreRequest;
import io.extendergateway.policy.v1beta1.Victim;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Calls over a socket: answers, and the status of every kind of failure. */
class ServiceTest {
  /** Does what the node's name says. */
  private static class Obedient implements Policy {
    volatile String notReady;

    @Override
    public Info info() {
      return Info.of("obedient", "1")
          .revision("r1")
          .filters(Verb.perNode())
          .scores(Verb.perNode(), Scale.unbounded())
          .preempts(Verb.perNode().view(View.NAME))
          .binds();
    }

    @Override
    public void ready() throws NotReadyException {
      if (notReady != null) {
        throw new NotReadyException(notReady);
      }
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return switch (node.name()) {
        case "bad" -> Verdict.reject("bad node").byRule("names").unresolvable();
        case "full" -> Verdict.reject("full node");
        case "unknown" -> throw new CannotAnswerException("no such claim");
        case "bug" -> throw new IllegalStateException("a bug\nwith two lines");
        case "deep" -> deep();
        case "last" -> {
          notReady = "prices are a day old";
          yield Verdict.accept();
        }
        default -> Verdict.accept();
      };
    }

    @SuppressWarnings("InfiniteRecursion")
    private static Verdict deep() {
      return deep();
    }

    @Override
    public List<Verdict> filterAll(Pod pod, List<Node> nodes) {
      List<Verdict> verdicts = Policy.super.filterAll(pod, nodes);
      return nodes.get(0).name().equals("few") ? verdicts.subList(1, verdicts.size()) : verdicts;
    }

    @Override
    public int score(Pod pod, Node node) {
      return node.name().equals("large") ? Math.toIntExact(1L << 40) : node.name().length();
    }

    @Override
    public Eviction preempt(Pod pod, io.extendergateway.policy.Candidate candidate) {
      return switch (candidate.node().name()) {
        case "spare" -> Eviction.spare();
        case "second" -> Eviction.only(1);
        case "beyond" -> Eviction.only(7);
        default -> Eviction.all();
      };
    }

    @Override
    public Bind bind(BindAsk ask) throws Exception {
      return switch (ask.name()) {
        case "declined" -> Bind.declined("ä".repeat(600));
        case "not bound" -> Bind.notBound("ö".repeat(600));
        case "failed" -> throw new BindFailedException("the apiserver is away");
        case "bug" -> throw new java.io.IOException("a broken pipe");
        default -> Bind.bound();
      };
    }
  }

  private final Obedient policy = new Obedient();
  private Served served;

  @BeforeEach
  void serve() throws ServeException {
    served = Served.of(policy);
  }

  @AfterEach
  void stop() {
    served.close();
  }

  private void refused(FilterRequest.Builder request, Status.Code code, String text) {
    Status status = Served.failure(() -> served.filter(request));
    assertEquals(code, status.getCode(), status.toString());
    assertTrue(status.getDescription().contains(text), status.toString());
  }

  private static String reason(Executable call) {
    var failure = assertThrows(StatusRuntimeException.class, call);
    return failure.getStatus().getCode() + " " + Served.reason(failure.getTrailers());
  }

  @Test
  void errorsOfOneCodeHaveDifferentReasons() throws ServeException {
    var pod = Served.pod().toBuilder();
    for (int at = 0; at < 200_000; at++) {
      pod.getFactsBuilder().addTolerationsBuilder();
    }
    ByteString args = ByteString.copyFromUtf8("{\"a\":1}");
    var otherReads = Served.call().setReads(Sha256.of(ByteString.EMPTY));
    BindRequest.Builder shadow = bind("web").toBuilder();
    shadow.getCallBuilder().setPurpose(Purpose.PURPOSE_SHADOW);
    Map<String, Executable> cases =
        Map.of(
            "RESOURCE_EXHAUSTED ERROR_REASON_TOO_LARGE",
            () -> served.filter(Served.about("a").setPod(pod)),
            "INVALID_ARGUMENT ERROR_REASON_INVALID_ARGS",
            () -> served.filter(Served.about("a").setCall(Served.call(args))),
            "FAILED_PRECONDITION ERROR_REASON_ARGS_UNKNOWN",
            () -> served.filter(Served.about("a").setCall(Served.named(args))),
            "FAILED_PRECONDITION ERROR_REASON_OTHER_READS",
            () -> served.filter(Served.about("a").setCall(otherReads)),
            "FAILED_PRECONDITION ERROR_REASON_PURPOSE",
            () -> served.client.bind(shadow.build()),
            "INVALID_ARGUMENT ERROR_REASON_INVALID_REQUEST",
            () -> served.filter(Served.about("a").clearCall()),
            "ABORTED ERROR_REASON_CANNOT_ANSWER",
            () -> served.filter(Served.about("unknown")),
            "INTERNAL ERROR_REASON_POLICY_FAILED",
            () -> served.filter(Served.about("bug")));
    cases.forEach((expected, call) -> assertEquals(expected, reason(call)));
    policy.notReady = "old";
    assertEquals(
        "UNAVAILABLE ERROR_REASON_NOT_READY", reason(() -> served.filter(Served.about("a"))));
    try (Served only = Served.of(new Declaring(Info.of("p", "1").binds()))) {
      assertEquals("UNIMPLEMENTED null", reason(() -> only.filter(Served.about("a"))));
    }
  }

  @Test
  void rejectionsAreGroupedByReasonRuleAndKind() {
    FilterResponse response = served.filter(Served.about("a", "bad", "full", "bad", "b"));
    assertEquals(5, response.getResult().getEvaluated());
    assertEquals("r1", response.getResult().getRevision());
    assertEquals(2, response.getRejectionsCount());
    assertEquals("bad node", response.getRejections(0).getReason());
    assertEquals("names", response.getRejections(0).getRule());
    assertEquals(List.of(1, 3), response.getRejections(0).getPositionsList());
    assertEquals(List.of(2), response.getRejections(1).getPositionsList());
    assertEquals(RejectionKind.REJECTION_KIND_UNRESOLVABLE, response.getRejections(0).getKind());
    assertEquals(RejectionKind.REJECTION_KIND_UNSCHEDULABLE, response.getRejections(1).getKind());
    assertFalse(response.hasScores());
  }

  @Test
  void aMissIsAllOfItsResponse() {
    var unknownForm = Served.about("a").setNodes(Nodes.newBuilder().setCount(1));
    Result miss = Result.newBuilder().setMiss(Miss.MISS_FORM_UNKNOWN).build();
    assertEquals(
        FilterResponse.newBuilder().setResult(miss).build(),
        served.filter(unknownForm.setWantScores(true)));
  }

  @Test
  void scoresComeWithTheVerdicts() {
    FilterResponse response = served.filter(Served.about("a", "bad").setWantScores(true));
    assertEquals(List.of(1, 3), response.getScores().getValuesList());
    // The gateway asks for them separately if they fail.
    for (String name : List.of("large", "last")) {
      response = served.filter(Served.about(name).setWantScores(true));
      assertFalse(response.hasScores(), name);
    }
  }

  @Test
  void aScoreThatIsTooLargeFailsTheCall() {
    ScoreRequest request =
        ScoreRequest.newBuilder()
            .setCall(Served.call())
            .setPod(Served.pod())
            .setNodes(Served.inline(Served.row("large")))
            .build();
    Status status = Served.failure(() -> served.client.score(request));
    assertEquals(Status.Code.INTERNAL, status.getCode());
    assertEquals(
        "score failed (ArithmeticException); see the policy's log", status.getDescription());
  }

  @Test
  void aFailureOfThePolicyEndsOneCall() {
    refused(
        Served.about("bug"),
        Status.Code.INTERNAL,
        "filter failed (IllegalStateException); see the policy's log");
    refused(Served.about("unknown"), Status.Code.ABORTED, "no such claim");
    refused(
        Served.about("deep"),
        Status.Code.INTERNAL,
        "filter failed (StackOverflowError); see the policy's log");
    refused(
        Served.about("few", "b"), Status.Code.INTERNAL, "filterAll returned 1 answers for 2 nodes");
    assertEquals(1, served.filter(Served.about("a")).getResult().getEvaluated());
  }

  @Test
  void aPolicyThatIsNotReadySaysWhy() {
    policy.notReady = "ä".repeat(2000);
    Status status = Served.failure(() -> served.filter(Served.about("a")));
    assertEquals(Status.Code.UNAVAILABLE, status.getCode());
    assertEquals(1024, Utf8.length(status.getDescription()));
    status = Served.failure(() -> served.client.bind(bind("web")));
    assertEquals(Status.Code.UNAVAILABLE, status.getCode());
    var invalid = preempt("a").clearCandidates().build();
    status = Served.failure(() -> served.client.preempt(invalid));
    assertEquals(Status.Code.INVALID_ARGUMENT, status.getCode());
  }

  @Test
  void aVerbWithSideEffectsOnlyDecides() throws ServeException {
    Policy filters = new Declaring(Info.of("filters", "1").filters(Verb.perNode().sideEffects()));
    try (Served only = Served.of(filters)) {
      assertEquals(1, only.filter(Served.about("a")).getResult().getEvaluated());
      for (int purpose : List.of(Purpose.PURPOSE_SHADOW_VALUE, 77)) {
        var call = Served.call().setPurposeValue(purpose);
        Status status = Served.failure(() -> only.filter(Served.about("a").setCall(call)));
        assertEquals(Status.Code.FAILED_PRECONDITION, status.getCode(), status.toString());
      }
    }
  }

  @Test
  void candidatesStayWithTheirVictims() {
    PreemptRequest.Builder request = preempt("all", "spare", "second");
    var kept = served.client.preempt(request.build()).getKeptList();
    assertEquals(2, kept.size());
    assertEquals(0, kept.get(0).getPosition());
    assertEquals(List.of(0, 1), kept.get(0).getVictimsList());
    assertEquals(2, kept.get(1).getPosition());
    assertEquals(List.of(1), kept.get(1).getVictimsList());
    Status status = Served.failure(() -> served.client.preempt(preempt("beyond").build()));
    assertEquals(Status.Code.INTERNAL, status.getCode());
    assertTrue(status.getDescription().contains("[7] for position 0, which has 2"));
    request.clearCandidates();
    status = Served.failure(() -> served.client.preempt(request.build()));
    assertTrue(status.getDescription().contains("there are 0 candidates"), status.toString());
  }

  private static PreemptRequest.Builder preempt(String... nodes) {
    FilterRequest.Builder about = Served.about(nodes);
    PreemptRequest.Builder request =
        PreemptRequest.newBuilder()
            .setCall(about.getCall())
            .setPod(about.getPod())
            .setNodes(about.getNodes());
    for (int at = 0; at < nodes.length; at++) {
      request.addCandidates(
          Candidate.newBuilder()
              .addVictims(Victim.newBuilder().setUid("u1"))
              .addVictims(Victim.newBuilder().setUid("u2").setPod(Served.pod())));
    }
    return request;
  }

  private static BindRequest bind(String pod) {
    return BindRequest.newBuilder()
        .setCall(Served.call())
        .setNamespace("shop")
        .setName(pod)
        .setUid("u")
        .setNode("n")
        .build();
  }

  @Test
  void thePolicysWordAboutABindIsTheAnswer() {
    assertEquals(BindOutcome.BIND_OUTCOME_BOUND, served.client.bind(bind("web")).getOutcome());
    var declined = served.client.bind(bind("declined"));
    assertEquals(BindOutcome.BIND_OUTCOME_DECLINED, declined.getOutcome());
    assertEquals(1024, Utf8.length(declined.getMessage()));
    var notBound = served.client.bind(bind("not bound"));
    assertEquals(BindOutcome.BIND_OUTCOME_NOT_BOUND, notBound.getOutcome());
    assertEquals(1024, Utf8.length(notBound.getMessage()));
    Status failed = Served.failure(() -> served.client.bind(bind("failed")));
    assertEquals(Status.Code.UNAVAILABLE, failed.getCode());
    assertEquals("the apiserver is away", failed.getDescription());
    Status bug = Served.failure(() -> served.client.bind(bind("bug")));
    assertEquals(Status.Code.INTERNAL, bug.getCode());
    assertEquals("bind failed (IOException); see the policy's log", bug.getDescription());
    BindRequest shadow =
        bind("web").toBuilder().setCall(Served.call().setPurpose(Purpose.PURPOSE_SHADOW)).build();
    Status refused = Served.failure(() -> served.client.bind(shadow));
    assertEquals(Status.Code.FAILED_PRECONDITION, refused.getCode());
    Status missing =
        Served.failure(() -> served.client.bind(bind("web").toBuilder().clearUid().build()));
    assertEquals("uid is missing; every request has it", missing.getDescription());
    var another = bind("web").toBuilder();
    another.getPodBuilder().getFactsBuilder().setNamespace("another");
    Status other = Served.failure(() -> served.client.bind(another.build()));
    assertEquals(
        "pod.facts.namespace is that of another pod than the one to bind", other.getDescription());
  }

  @Test
  void aCancelledBindIsInterrupted() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CompletableFuture<String> ended = new CompletableFuture<>();
    Policy slow =
        new Policy() {
          @Override
          public Info info() {
            return Info.of("slow", "1").binds();
          }

          @Override
          public Bind bind(BindAsk ask) throws InterruptedException {
            begun.countDown();
            try {
              Thread.sleep(60_000);
            } catch (InterruptedException interrupted) {
              ended.complete("interrupted");
              throw interrupted;
            }
            return Bind.bound();
          }
        };
    try (Served only = Served.of(slow)) {
      Status status =
          Served.failure(
              () -> only.client.withDeadlineAfter(300, TimeUnit.MILLISECONDS).bind(bind("web")));
      assertEquals(Status.Code.DEADLINE_EXCEEDED, status.getCode());
      assertTrue(begun.await(20, TimeUnit.SECONDS));
      assertEquals("interrupted", ended.get(20, TimeUnit.SECONDS));
    }
  }

  @Test
  void bindsThatWaitKeepNoThreadFromOtherCalls() throws Exception {
    CompletableFuture<Bind> outcome = new CompletableFuture<>();
    Policy async =
        new Policy() {
          @Override
          public Info info() {
            return Info.of("async", "1").binds().filters(Verb.perNode());
          }

          @Override
          public Verdict filter(Pod pod, Node node) {
            return Verdict.accept();
          }

          @Override
          public CompletableFuture<Bind> bindAsync(BindAsk ask, Executor waiting) {
            return outcome;
          }
        };
    try (Served only = Served.of(async)) {
      var stub = io.extendergateway.policy.v1beta1.PolicyServiceGrpc.newFutureStub(only.channel);
      var binds =
          java.util.stream.Stream.generate(() -> stub.bind(bind("web"))).limit(100).toList();
      assertEquals(1, only.filter(Served.about("a")).getResult().getEvaluated());
      outcome.complete(Bind.declined("later"));
      for (var bind : binds) {
        assertEquals("later", bind.get(20, TimeUnit.SECONDS).getMessage());
      }
    }
  }

  @Test
  void aCallNamesTheDeclarationForWhichItWasMade() throws ServeException {
    Verb reading = Verb.perNode().reads(new Reads().pod(PodPart.PRIORITY));
    Policy reads = new Declaring(Info.of("reads", "1").filters(reading));
    try (Served only = Served.of(reads)) {
      var info = only.client.getInfo(GetInfoRequest.getDefaultInstance());
      ByteString sha256 = Sha256.of(info.getVerbs(0).getReads().toByteString());
      var call = Served.call().setReads(sha256);
      assertEquals(1, only.filter(Served.about("a").setCall(call)).getResult().getEvaluated());
      String other = "FAILED_PRECONDITION ERROR_REASON_OTHER_READS";
      assertEquals(other, reason(() -> only.filter(Served.about("a"))));
      for (ByteString wrong : List.of(Sha256.of(sha256), sha256.substring(1))) {
        var request = Served.about("a").setCall(Served.call().setReads(wrong));
        assertEquals(other, reason(() -> only.filter(request)));
      }
      // Of a verb that declares nothing.
      assertEquals(other, reason(() -> served.filter(Served.about("a").setCall(call))));
    }
  }

  @Test
  void aFutureThatThePolicyCancelsIsAFailure() throws ServeException {
    CompletableFuture<Bind> cancelled = new CompletableFuture<>();
    cancelled.cancel(true);
    Policy async =
        new Policy() {
          @Override
          public Info info() {
            return Info.of("async", "1").binds();
          }

          @Override
          public CompletableFuture<Bind> bindAsync(BindAsk ask, Executor waiting) {
            return cancelled;
          }
        };
    try (Served only = Served.of(async)) {
      Status status =
          Served.failure(
              () -> only.client.withDeadlineAfter(20, TimeUnit.SECONDS).bind(bind("web")));
      assertEquals(Status.Code.INTERNAL, status.getCode());
    }
  }

  @Test
  void podsHaveTheSnapshotAndTheClusterOfTheCall() throws ServeException {
    List<String> seen = new java.util.concurrent.CopyOnWriteArrayList<>();
    Policy policy =
        new Policy() {
          @Override
          public Info info() {
            Verb verb = Verb.perNode().reads(new Reads());
            return Info.of("snapshot", "1").filters(verb).preempts(Verb.perNode()).binds();
          }

          private void see(Pod pod) {
            seen.add(pod.snapshot().orElse("none") + " " + pod.cluster().orElse("none"));
          }

          @Override
          public Verdict filter(Pod pod, Node node) {
            see(pod);
            return Verdict.accept();
          }

          @Override
          public Eviction preempt(Pod pod, io.extendergateway.policy.Candidate candidate) {
            see(pod);
            see(candidate.victims().get(1).pod().get());
            return Eviction.all();
          }

          @Override
          public Bind bind(BindAsk ask) {
            see(ask.pod().get());
            return Bind.bound();
          }
        };
    ByteString reads = Sha256.of(ByteString.EMPTY);
    try (Served only = Served.of(policy)) {
      only.filter(Served.about("a").setCall(Served.call().setReads(reads)));
      var named = Served.call().setReads(reads).setSnapshot("s1").setCluster("c");
      only.filter(Served.about("a").setCall(named));
      only.client.preempt(preempt("a").setCall(Served.call().setSnapshot("s2")).build());
      var bind = bind("web").toBuilder().setCall(Served.call().setCluster("d"));
      only.client.bind(bind.setPod(Served.pod()).build());
    }
    assertEquals(List.of("none none", "s1 c", "s2 none", "s2 none", "none d"), seen);
  }
}
