package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.v1beta1.BindOutcome;
import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.Candidate;
import io.extendergateway.policy.v1beta1.FilterRequest;
import io.extendergateway.policy.v1beta1.FilterResponse;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.Miss;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.Nodes;
import io.extendergateway.policy.v1beta1.PreemptRequest;
import io.extendergateway.policy.v1beta1.Purpose;
import io.extendergateway.policy.v1beta1.RejectionKind;
import io.extendergateway.policy.v1beta1.Result;
import io.extendergateway.policy.v1beta1.ScoreRequest;
import io.extendergateway.policy.v1beta1.Scores;
import io.extendergateway.policy.v1beta1.Victim;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
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
  private static final Reads NAMES = new Reads().node(NodePart.NAME);

  /** Does what the node's name says. */
  private static class Obedient implements Policy {
    volatile String notReady;

    @Override
    public Info info() {
      Verb perNode = Verb.perNode().reads(NAMES);
      return Info.of("obedient", "1")
          .revision("r1")
          .filters(perNode)
          .scores(perNode, Scale.unbounded())
          .preempts(perNode)
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
        case "soon" -> Verdict.reject("full node").retryAfter(Duration.ofMillis(59_001));
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
      return switch (node.name()) {
        case "large" -> Math.toIntExact(1L << 40);
        case "indifferent" -> NO_OPINION;
        default -> node.name().length();
      };
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

  private static FilterRequest.Builder about(String... names) {
    return Served.about(names).setCall(Served.call(NAMES));
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
    BindRequest.Builder shadow = bind("web").toBuilder();
    shadow.getCallBuilder().setPurpose(Purpose.PURPOSE_SHADOW);
    Map<String, Executable> cases =
        Map.of(
            "RESOURCE_EXHAUSTED ERROR_REASON_TOO_LARGE",
            () -> served.filter(about("a").setPod(pod)),
            "INVALID_ARGUMENT ERROR_REASON_INVALID_ARGS",
            () -> served.filter(about("a").setCall(Served.call(args))),
            "FAILED_PRECONDITION ERROR_REASON_ARGS_UNKNOWN",
            () -> served.filter(about("a").setCall(Served.named(args))),
            "FAILED_PRECONDITION ERROR_REASON_OTHER_READS",
            () -> served.filter(about("a").setCall(Served.call())),
            "FAILED_PRECONDITION ERROR_REASON_PURPOSE",
            () -> served.client.bind(shadow.build()),
            "INVALID_ARGUMENT ERROR_REASON_INVALID_REQUEST",
            () -> served.filter(about("a").clearCall()),
            "ABORTED ERROR_REASON_CANNOT_ANSWER",
            () -> served.filter(about("unknown")),
            "INTERNAL ERROR_REASON_POLICY_FAILED",
            () -> served.filter(about("bug")));
    cases.forEach((expected, call) -> assertEquals(expected, reason(call)));
    policy.notReady = "old";
    assertEquals("UNAVAILABLE ERROR_REASON_NOT_READY", reason(() -> served.filter(about("a"))));
    try (Served only = Served.of(new Declaring(Info.of("p", "1").binds()))) {
      assertEquals("UNIMPLEMENTED null", reason(() -> only.filter(Served.about("a"))));
    }
  }

  @Test
  void rejectionsAreGroupedByVerdict() {
    FilterResponse response = served.filter(about("a", "bad", "full", "bad", "b", "soon"));
    assertEquals(6, response.getResult().getEvaluated());
    assertEquals("r1", response.getResult().getRevision());
    assertEquals(3, response.getRejectionsCount());
    assertEquals("bad node", response.getRejections(0).getReason());
    assertEquals("names", response.getRejections(0).getRule());
    assertEquals(List.of(1, 3), response.getRejections(0).getPositionsList());
    assertEquals(List.of(2), response.getRejections(1).getPositionsList());
    assertEquals(RejectionKind.REJECTION_KIND_UNRESOLVABLE, response.getRejections(0).getKind());
    assertEquals(RejectionKind.REJECTION_KIND_UNSCHEDULABLE, response.getRejections(1).getKind());
    assertFalse(response.getRejections(1).hasRetryAfterSeconds());
    assertEquals(60, response.getRejections(2).getRetryAfterSeconds());
    assertFalse(response.hasScores());
  }

  @Test
  void rowsOfWhichNothingIsReadAreEmpty() throws ServeException {
    NodeRow[] rows =
        Collections.nCopies(15_000, NodeRow.getDefaultInstance()).toArray(NodeRow[]::new);
    try (Served only = Served.of(new Declaring(Info.of("p", "1").filters(Verb.perNode())))) {
      var request = Served.about().setNodes(Served.inline(rows));
      assertEquals(15_000, only.filter(request).getResult().getEvaluated());
    }
    var request = about().setNodes(Served.inline(rows));
    refused(request, Status.Code.INVALID_ARGUMENT, "nodes.rows.rows[0].name is missing");
    var many = Collections.nCopies(1_000_000, NodeRow.getDefaultInstance()).toArray(NodeRow[]::new);
    request = about().setNodes(Served.inline(many));
    refused(request, Status.Code.RESOURCE_EXHAUSTED, "would take more than");
  }

  @Test
  void aRowThatHasChangedIsDecodedAgain() throws Exception {
    Reads reads = new Reads().node(NodePart.NAME);
    NodeKey zone = reads.nodeLabel("zone");
    Questions questions = new Questions(Backend.of(labelled(reads)), new Tables());
    for (String value : List.of("a", "b", "b", "a")) {
      NodeRow.Builder row = Served.row("n").toBuilder();
      row.getFactsBuilder().getLabelsBuilder().addValues(value);
      byte[] request =
          about()
              .setCall(Served.call(reads))
              .setNodes(Served.inline(row.build()))
              .build()
              .toByteArray();
      Asked asked = Asked.decode(request, Kind.FILTER.shape, Kind.FILTER.request);
      Question question = questions.about(Kind.FILTER, asked, Trace.NONE);
      assertEquals(value, question.nodes().get(0).get(zone).orElseThrow());
    }
  }

  @Test
  void aKnownRowIsCheckedForAnotherVerb() throws Exception {
    Reads zones = new Reads();
    zones.nodeLabel("zone");
    Verb verb = Verb.perNode();
    Info info = Info.of("p", "1").filters(verb.reads(zones)).scores(verb, Scale.unbounded());
    Questions questions = new Questions(Backend.of(new Declaring(info)), new Tables());
    NodeRow.Builder row = NodeRow.newBuilder();
    row.getFactsBuilder().getLabelsBuilder().addValues("a");
    var request = about().setNodes(Served.inline(row.build()));
    byte[] filter = request.setCall(Served.call(zones)).build().toByteArray();
    byte[] score = request.setCall(Served.call()).build().toByteArray();
    questions.about(Kind.FILTER, decoded(Kind.FILTER, filter), Trace.NONE);
    Asked asked = decoded(Kind.SCORE, score);
    assertThrows(CallException.class, () -> questions.about(Kind.SCORE, asked, Trace.NONE));
  }

  private static Asked decoded(Kind kind, byte[] request) {
    return Asked.decode(request, kind.shape, kind.request);
  }

  private static Policy labelled(Reads reads) {
    return new Declaring(Info.of("p", "1").filters(Verb.perNode().reads(reads)));
  }

  @Test
  void rowsAreDecodedAsTheLibraryDoes() throws Exception {
    byte[] whole = about("a", "good").build().toByteArray();
    byte[] twice = Arrays.copyOf(whole, 2 * whole.length);
    System.arraycopy(whole, 0, twice, whole.length, whole.length);
    // Protobuf merges messages: their rows are in two places.
    Asked merged = Asked.decode(twice, Kind.FILTER.shape, Kind.FILTER.request);
    assertEquals(FilterRequest.parseFrom(twice), merged.request);
    byte[] broken = whole.clone();
    int name = new String(whole, StandardCharsets.ISO_8859_1).indexOf("good");
    broken[name] = (byte) 0xff;
    var about = assertThrows(CallException.class, () -> answered(broken));
    assertEquals(Status.Code.INVALID_ARGUMENT, about.code());
  }

  private static Question answered(byte[] request) {
    Asked asked = Asked.decode(request, Kind.FILTER.shape, Kind.FILTER.request);
    Policy policy = new Declaring(Info.of("p", "1").filters(Verb.perNode().reads(NAMES)));
    return new Questions(Backend.of(policy), new Tables()).about(Kind.FILTER, asked, Trace.NONE);
  }

  @Test
  void aMissIsAllOfItsResponse() {
    var unknownForm = about("a").setNodes(Nodes.newBuilder().setCount(1));
    Result miss = Result.newBuilder().setMiss(Miss.MISS_FORM_UNKNOWN).build();
    assertEquals(
        FilterResponse.newBuilder().setResult(miss).build(),
        served.filter(unknownForm.setWantScores(true)));
  }

  @Test
  void scoresComeWithTheVerdicts() {
    FilterResponse response = served.filter(about("a", "bad").setWantScores(true));
    assertEquals(List.of(1, 3), response.getScores().getValuesList());
    assertEquals(0, response.getScores().getAbsentCount());
    // The gateway asks for them separately if they fail.
    for (String name : List.of("large", "last")) {
      response = served.filter(about(name).setWantScores(true));
      assertFalse(response.hasScores(), name);
    }
  }

  private Scores score(String... names) {
    FilterRequest.Builder about = about(names);
    ScoreRequest.Builder request =
        ScoreRequest.newBuilder()
            .setCall(about.getCall())
            .setPod(about.getPod())
            .setNodes(about.getNodes());
    return served.client.score(request.build()).getScores();
  }

  @Test
  void aNodeWithoutAnOpinionIsAbsentFromTheScores() {
    Scores scores = score("indifferent", "a", "indifferent");
    assertEquals(List.of(0, 1, 0), scores.getValuesList());
    assertEquals(List.of(0, 2), scores.getAbsentList());
    var early = served.filter(about("indifferent", "a", "indifferent").setWantScores(true));
    assertEquals(scores, early.getScores());
  }

  @Test
  void aScoreThatIsTooLargeFailsTheCall() {
    Status status = Served.failure(() -> score("large"));
    assertEquals(Status.Code.INTERNAL, status.getCode());
    assertEquals(
        "score failed (ArithmeticException); see the policy's log", status.getDescription());
  }

  @Test
  void aFailureOfThePolicyEndsOneCall() {
    refused(
        about("bug"),
        Status.Code.INTERNAL,
        "filter failed (IllegalStateException); see the policy's log");
    refused(about("unknown"), Status.Code.ABORTED, "no such claim");
    refused(
        about("deep"),
        Status.Code.INTERNAL,
        "filter failed (StackOverflowError); see the policy's log");
    refused(about("few", "b"), Status.Code.INTERNAL, "filterAll returned 1 answers for 2 nodes");
    assertEquals(1, served.filter(about("a")).getResult().getEvaluated());
  }

  @Test
  void aPolicyThatIsNotReadySaysWhy() {
    policy.notReady = "ä".repeat(2000);
    Status status = Served.failure(() -> served.filter(about("a")));
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
    assertTrue(status.getDescription().contains("[7] for node \"beyond\", which has 2"));
    request.clearCandidates();
    status = Served.failure(() -> served.client.preempt(request.build()));
    assertTrue(status.getDescription().contains("there are 0 candidates"), status.toString());
  }

  private static PreemptRequest.Builder preempt(String... nodes) {
    FilterRequest.Builder about = about(nodes);
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
      for (ByteString wrong : List.of(Sha256.of(sha256), sha256.substring(1), ByteString.EMPTY)) {
        var request = Served.about("a").setCall(Served.call().setReads(wrong));
        assertEquals(other, reason(() -> only.filter(request)));
      }
      // Of a verb that declares something else.
      assertEquals(other, reason(() -> served.filter(about("a").setCall(call))));
    }
  }

  @Test
  void valuesThatDoNotFitTheDeclarationAreRefused() throws ServeException {
    Reads reads = new Reads().pod(PodPart.PRIORITY);
    reads.nodeLabel("a");
    reads.podAnnotation("b");
    reads.podAnnotation("c");
    Info info = Info.of("reads", "1").filters(Verb.perNode().reads(reads));
    FilterRequest.Builder about = Served.about("n").setCall(Served.call(reads));
    var pod = about.getPodBuilder().getFactsBuilder().getAnnotationsBuilder();
    var row = about.getNodesBuilder().getRowsBuilder().getRowsBuilder(0);
    try (Served only = Served.of(new Declaring(info))) {
      refused(
          only,
          about,
          "nodes.rows.rows[0].facts.labels.values has 0 values, and 1 keys are declared");
      row.getFactsBuilder().getLabelsBuilder().addValues("v");
      refused(only, about, "pod.facts.annotations.values has 0 values, and 2 keys are declared");
      pod.addValues("").addValues("").addAllAbsent(List.of(1, 0));
      refused(
          only, about, "pod.facts.annotations.absent is not a list of ascending positions below 2");
      pod.clearAbsent().addAbsent(1);
      assertEquals(1, only.filter(about).getResult().getEvaluated());
      row.clearFacts();
      refused(only, about, "nodes.rows.rows[0].facts is missing; the reads that this policy");
    }
  }

  private static void refused(Served served, FilterRequest.Builder request, String text) {
    Status status = Served.failure(() -> served.filter(request));
    assertEquals(Status.Code.INVALID_ARGUMENT, status.getCode(), status.toString());
    assertTrue(status.getDescription().startsWith(text), status.toString());
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
  void podsHaveTheSnapshotTheClusterAndTheIdOfTheCall() throws ServeException {
    List<String> seen = new java.util.concurrent.CopyOnWriteArrayList<>();
    Policy policy =
        new Policy() {
          @Override
          public Info info() {
            return Info.of("snapshot", "1")
                .filters(Verb.perNode())
                .preempts(Verb.perNode())
                .binds();
          }

          private void see(Pod pod) {
            String cluster = pod.cluster().orElse("none");
            seen.add(pod.snapshot().orElse("none") + " " + cluster + " " + pod.callId());
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
            ask.pod().ifPresentOrElse(this::see, () -> seen.add(ask.callId()));
            return Bind.bound();
          }
        };
    try (Served only = Served.of(policy)) {
      only.filter(Served.about("a"));
      var named = Served.call().setSnapshot("s1").setCluster("c").setId("c2");
      only.filter(Served.about("a").setCall(named));
      only.client.preempt(preempt("a").setCall(Served.call().setSnapshot("s2")).build());
      var bind = bind("web").toBuilder().setCall(Served.call().setCluster("d"));
      only.client.bind(bind.setPod(Served.pod()).build());
      only.client.bind(bind.clearPod().setCall(Served.call().setId("c3")).build());
    }
    assertEquals(
        List.of("none none c1", "s1 c c2", "s2 none c1", "s2 none c1", "none d c1", "c3"), seen);
  }

  /** A policy whose verbs read the id of the call. */
  private record Reserving(Verb filter, Verb score) implements Policy {
    @Override
    public Info info() {
      return Info.of("reserving", "1").filters(filter).scores(score, Scale.between(0, 10));
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return filter.isPure ? Verdict.accept() : Verdict.reject(pod.callId());
    }

    @Override
    public int score(Pod pod, Node node) {
      return pod.callId().length();
    }
  }

  @Test
  void aPureVerbCannotReadTheIdOfTheCall() throws ServeException {
    Verb pure = Verb.perNode().pure();
    var request = Served.about("a").setWantScores(true);
    var score = ScoreRequest.newBuilder().setCall(request.getCall()).setPod(request.getPod());
    score.setNodes(request.getNodes());
    try (Served only = Served.of(new Reserving(Verb.perNode(), pure))) {
      assertEquals(
          "score failed: callId is another one in each call, which a pure verb cannot read; declare the verb without pure",
          Served.failure(() -> only.client.score(score.build())).getDescription());
      // Nor in the call of a verb that can.
      FilterResponse response = only.filter(request);
      assertEquals("c1", response.getRejections(0).getReason());
      assertFalse(response.hasScores());
    }
    try (Served only = Served.of(new Reserving(pure, Verb.perNode()))) {
      assertEquals(List.of(2), only.filter(request).getScores().getValuesList());
    }
  }
}
