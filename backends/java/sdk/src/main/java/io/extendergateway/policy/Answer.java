package io.extendergateway.policy;

import io.extendergateway.policy.Backend.Prepared;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.Declaration.Terms;
import io.extendergateway.policy.v1alpha1.BindOutcome;
import io.extendergateway.policy.v1alpha1.BindRequest;
import io.extendergateway.policy.v1alpha1.BindResponse;
import io.extendergateway.policy.v1alpha1.Call;
import io.extendergateway.policy.v1alpha1.FilterRequest;
import io.extendergateway.policy.v1alpha1.FilterResponse;
import io.extendergateway.policy.v1alpha1.GetInfoRequest;
import io.extendergateway.policy.v1alpha1.GetInfoResponse;
import io.extendergateway.policy.v1alpha1.KeptCandidate;
import io.extendergateway.policy.v1alpha1.Miss;
import io.extendergateway.policy.v1alpha1.NodeRef;
import io.extendergateway.policy.v1alpha1.NodeRow;
import io.extendergateway.policy.v1alpha1.Nodes;
import io.extendergateway.policy.v1alpha1.PreemptRequest;
import io.extendergateway.policy.v1alpha1.PreemptResponse;
import io.extendergateway.policy.v1alpha1.Purpose;
import io.extendergateway.policy.v1alpha1.Rejection;
import io.extendergateway.policy.v1alpha1.Result;
import io.extendergateway.policy.v1alpha1.ScoreRequest;
import io.extendergateway.policy.v1alpha1.ScoreResponse;
import io.extendergateway.policy.v1alpha1.Scores;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;

/**
 * From a request to an answer, without sockets: fulfills what the contract requires of a backend,
 * so that a policy does not have to. Everything that is thrown here becomes a status by {@link
 * Failures}.
 */
final class Answer {
  /**
   * The longest reason. The gateway shows 200 bytes of it, and accepts an answer of 1 KiB per node.
   */
  private static final int MAX_REASON_BYTES = 900;

  private static final int MAX_RULE_BYTES = 63;
  private static final int MAX_BIND_MESSAGE_BYTES = 1024;

  private final Backend backend;
  private final Tables tables;

  Answer(Backend backend, Tables tables) {
    this.backend = backend;
    this.tables = tables;
  }

  /** A request that can be answered, or the reason why its nodes cannot be read. */
  private record Question(Prepared prepared, Terms terms, Pod pod, List<Node> nodes, Miss miss) {}

  /** The answer to the handshake. */
  GetInfoResponse info(GetInfoRequest request) {
    return backend.policyFor(request.getArgs()).declaration().response;
  }

  /**
   * Rejects calls of a verb that the policy with these args does not declare, before they are
   * decoded.
   */
  void admit(Kind verb, byte[] request) {
    if (backend.policyFor(Wire.args(request)).declaration().terms(verb) == null) {
      throw notServed(verb);
    }
  }

  /** Which of the nodes the pod may not run on; with scores if they are wanted and may be given. */
  FilterResponse filter(FilterRequest request, Trace trace) throws Exception {
    Question question =
        question(
            Kind.FILTER,
            request.hasCall() ? request.getCall() : null,
            request.hasPod() ? request.getPod() : null,
            request.hasNodes() ? request.getNodes() : null,
            trace);
    if (question.miss != null) {
      return FilterResponse.newBuilder().setResult(missed(question, trace)).build();
    }
    Policy policy = question.prepared.policy();
    policy.ready();
    List<Verdict> verdicts = policy.filterAll(question.pod, question.nodes);
    counted("filterAll", verdicts == null ? 0 : verdicts.size(), question);
    FilterResponse.Builder response = FilterResponse.newBuilder();
    response.setResult(done(question, trace));
    long rejected = 0;
    for (Rejection.Builder rejection : rejections(verdicts)) {
      rejected += rejection.getPositionsCount();
      response.addRejections(rejection);
    }
    trace.attribute("extender.nodes.rejected", rejected);
    Terms score = question.prepared.declaration().terms(Kind.SCORE);
    if (request.getWantScores() && score != null && score.mayComeWith(question.terms)) {
      earlyScores(question, response);
    }
    return response.build();
  }

  /** How good each of the nodes is. */
  ScoreResponse score(ScoreRequest request, Trace trace) throws Exception {
    Question question =
        question(
            Kind.SCORE,
            request.hasCall() ? request.getCall() : null,
            request.hasPod() ? request.getPod() : null,
            request.hasNodes() ? request.getNodes() : null,
            trace);
    if (question.miss != null) {
      return ScoreResponse.newBuilder().setResult(missed(question, trace)).build();
    }
    return ScoreResponse.newBuilder()
        .setScores(scores(question))
        .setResult(done(question, trace))
        .build();
  }

  /** Which pods may be evicted on which of the nodes. */
  PreemptResponse preempt(PreemptRequest request, Trace trace) throws Exception {
    Question question =
        question(
            Kind.PREEMPT,
            request.hasCall() ? request.getCall() : null,
            request.hasPod() ? request.getPod() : null,
            request.hasNodes() ? request.getNodes() : null,
            trace);
    if (question.miss != null) {
      return PreemptResponse.newBuilder().setResult(missed(question, trace)).build();
    }
    List<Candidate> candidates = candidates(request, question);
    Policy policy = question.prepared.policy();
    policy.ready();
    List<Eviction> evictions = policy.preemptAll(question.pod, candidates);
    counted("preemptAll", evictions == null ? 0 : evictions.size(), question);
    PreemptResponse.Builder response = PreemptResponse.newBuilder();
    for (int position = 0; position < candidates.size(); position++) {
      Eviction eviction = Objects.requireNonNull(evictions.get(position), "an eviction is null");
      if (eviction.kind != Eviction.Kind.SPARE) {
        response.addKept(kept(position, candidates.get(position).victims().size(), eviction));
      }
    }
    return response.setResult(done(question, trace)).build();
  }

  /** Binds the pod, or declines; failures come by the future or are thrown. */
  CompletionStage<BindResponse> bind(BindRequest request, Trace trace, Executor waiting)
      throws Exception {
    if (!request.hasCall()) {
      throw CallException.missing("call");
    }
    Prepared prepared = policyFor(request.getCall(), Kind.BIND, trace);
    Terms terms = termsOf(prepared, Kind.BIND);
    checkPurpose(request.getCall(), true);
    Pod pod = null;
    if (request.hasPod()) {
      pod = pod(request.getPod(), request.getCall(), terms);
    }
    required("namespace", request.getNamespace());
    required("name", request.getName());
    required("uid", request.getUid());
    required("node", request.getNode());
    prepared.policy().ready();
    CompletionStage<Bind> bound =
        prepared.policy().bindAsync(new BindAsk(request, pod), trace.around(waiting));
    return Bound.of(bound, Answer::response);
  }

  private static void required(String field, String given) {
    if (given.isEmpty()) {
      throw CallException.missing(field);
    }
  }

  private static BindResponse response(Bind bind) {
    Objects.requireNonNull(bind, "the outcome of bind is null");
    BindResponse.Builder response = BindResponse.newBuilder();
    return bind.isBound()
        ? response.setOutcome(BindOutcome.BIND_OUTCOME_BOUND).build()
        : response
            .setOutcome(BindOutcome.BIND_OUTCOME_DECLINED)
            .setMessage(Utf8.cut(bind.why(), MAX_BIND_MESSAGE_BYTES))
            .build();
  }

  /**
   * Reads and checks what all verbs about nodes have. Whether it is valid does not depend on which
   * tables exist.
   */
  private Question question(
      Kind verb, Call call, io.extendergateway.policy.v1alpha1.Pod pod, Nodes nodes, Trace trace) {
    if (call == null) {
      throw CallException.missing("call");
    }
    Prepared prepared = policyFor(call, verb, trace);
    Terms terms = termsOf(prepared, verb);
    checkPurpose(call, terms.hasSideEffects);
    if (nodes == null) {
      throw CallException.missing("nodes");
    }
    Held held = held(nodes, terms);
    if (pod == null) {
      throw CallException.missing("pod");
    }
    String mismatch = Values.topologyMismatch(pod, terms.podFields());
    if (mismatch != null) {
      throw CallException.invalid("pod.topology_counts%s", mismatch);
    }
    Pod viewed = pod(pod, call, terms);
    if (held.miss != null) {
      return new Question(prepared, terms, viewed, List.of(), held.miss);
    }
    Access access = Access.to(terms.nodeFields());
    List<Node> views = new ArrayList<>(held.rows.size());
    for (Row row : held.rows) {
      views.add(new Node(row, access));
    }
    return new Question(prepared, terms, viewed, views, null);
  }

  /** The policy for a call, which its trace names. */
  private Prepared policyFor(Call call, Kind verb, Trace trace) {
    trace.attribute("extender.call.id", call.getId());
    trace.attribute("extender.backend.name", call.getBackend());
    Prepared prepared = backend.policyReading(call, verb);
    trace.attribute("extender.policy.name", prepared.declaration().response.getName());
    trace.attribute("extender.policy.revision", prepared.declaration().response.getRevision());
    return prepared;
  }

  private static Terms termsOf(Prepared prepared, Kind verb) {
    Terms terms = prepared.declaration().terms(verb);
    if (terms == null) {
      throw notServed(verb);
    }
    return terms;
  }

  private static CallException notServed(Kind verb) {
    return CallException.of(
        Status.Code.UNIMPLEMENTED,
        "this policy does not serve %s; its GetInfo does not list it".formatted(verb.method));
  }

  /** A number, not the enum: an unknown purpose of a later version is not a decision either. */
  private static void checkPurpose(Call call, boolean onlyDecides) {
    if (call.getPurposeValue() == Purpose.PURPOSE_UNSPECIFIED_VALUE) {
      throw CallException.invalid("call.purpose is missing");
    }
    if (onlyDecides && call.getPurposeValue() != Purpose.PURPOSE_DECIDE_VALUE) {
      throw CallException.of(
          Status.Code.FAILED_PRECONDITION,
          "this policy has side effects and only answers PURPOSE_DECIDE");
    }
  }

  private static Pod pod(io.extendergateway.policy.v1alpha1.Pod message, Call call, Terms terms) {
    String mismatch = Values.mismatch(message, terms.podFields());
    if (mismatch != null) {
      throw CallException.invalid("pod.facts.%s", mismatch);
    }
    if (!message.hasFacts()) {
      throw CallException.missing("pod.facts");
    }
    return new Pod(message, Access.to(terms.podFields()), call.getSnapshot());
  }

  /** The rows in the order of the request, or why there are none. */
  private record Held(List<Row> rows, Miss miss) {}

  private Held held(Nodes nodes, Terms terms) {
    switch (nodes.getFormCase()) {
      case ROWS -> {
        checkCount(nodes, nodes.getRows().getRowsCount());
        return new Held(inline("rows", nodes.getRows().getRowsList(), terms), null);
      }
      case TABLE -> {
        NodeRef form = nodes.getTable();
        checkCount(nodes, form.getIdsCount());
        checkZeros(form);
        return named(form, inline("table", form.getRowsList(), terms), terms);
      }
      default -> {
        return new Held(List.of(), Miss.MISS_FORM_UNKNOWN);
      }
    }
  }

  private static void checkCount(Nodes nodes, int rows) {
    if (nodes.getCount() != rows || rows == 0) {
      throw CallException.invalid(
          "nodes.count is %s and there are %d rows; both count the nodes of the request, at least 1",
          Integer.toUnsignedString(nodes.getCount()), rows);
    }
  }

  private static void checkZeros(NodeRef form) {
    int zeros = 0;
    for (int at = 0; at < form.getIdsCount(); at++) {
      zeros += form.getIds(at) == 0 ? 1 : 0;
    }
    if (zeros != form.getRowsCount()) {
      throw CallException.invalid(
          "nodes.table.ids has %d zeros and there are %d rows; each zero stands for a row",
          zeros, form.getRowsCount());
    }
  }

  /**
   * The rows, if they hold what the policy was promised: a node without facts would look like one
   * without labels.
   */
  private static List<Row> inline(String form, List<NodeRow> messages, Terms terms) {
    Layout.Counts counts = terms.reads == null ? null : terms.reads.node.counts();
    List<Row> rows = new ArrayList<>(messages.size());
    for (NodeRow message : messages) {
      Row row = new Row(message);
      String missing = row.lacks(terms.rowParts);
      if (missing != null) {
        throw CallException.invalid(
            "nodes.%s.rows[%d].%s is missing; the node view that this policy declares has it",
            form, rows.size(), missing);
      }
      int unordered = row.unordered();
      if (unordered >= 0) {
        throw CallException.invalid(
            "nodes.%s.rows[%d] is not a NodeRow: pod_counts[%d].counts is not in ascending order of namespace"
                + " and value, each once",
            form, rows.size(), unordered);
      }
      String mismatch = counts == null ? null : row.mismatch(counts);
      if (mismatch != null) {
        throw CallException.invalid("nodes.%s.rows[%d].%s", form, rows.size(), mismatch);
      }
      rows.add(row);
    }
    return rows;
  }

  /** The rows of a table, which may hold more than the verb needs, but not less. */
  private Held named(NodeRef form, List<Row> inline, Terms terms) {
    Tables.Table table = tables.find(form.getTable());
    // Values of another declaration could stand for other keys.
    if (table == null || !Objects.equals(table.holds.reads(), terms.rowReads())) {
      return new Held(List.of(), Miss.MISS_TABLE_UNKNOWN);
    }
    if (!table.holds.view().covers(terms.view)) {
      throw CallException.invalid(
          "nodes.table is a table of View.%s, and this policy declares View.%s",
          table.holds.view(), terms.view);
    }
    List<Row> rows = table.rows(form.getAtLeast(), form.getIdsList(), inline);
    return rows == null ? new Held(List.of(), Miss.MISS_TABLE_BEHIND) : new Held(rows, null);
  }

  private static List<Candidate> candidates(PreemptRequest request, Question question) {
    int given = request.getCandidatesCount();
    if (given != question.nodes.size()) {
      throw CallException.invalid(
          "nodes.count is %d and there are %d candidates; each node has one",
          question.nodes.size(), given);
    }
    Layout.Fields fields = question.terms.podFields();
    Access access = Access.to(fields);
    long snapshot = request.getCall().getSnapshot();
    List<Candidate> candidates = new ArrayList<>(given);
    for (int position = 0; position < given; position++) {
      var message = request.getCandidates(position);
      if (message.getVictimsCount() == 0) {
        throw CallException.invalid(
            "candidates[%d] has no victims; each has at least one", position);
      }
      for (int victim = 0; victim < message.getVictimsCount(); victim++) {
        String mismatch = Values.mismatch(message.getVictims(victim).getPod(), fields);
        if (mismatch != null) {
          throw CallException.invalid(
              "candidates[%d].victims[%d].pod.facts.%s", position, victim, mismatch);
        }
      }
      candidates.add(new Candidate(question.nodes.get(position), message, access, snapshot));
    }
    return candidates;
  }

  private static KeptCandidate kept(int position, int there, Eviction eviction) {
    KeptCandidate.Builder kept = KeptCandidate.newBuilder().setPosition(position);
    if (eviction.kind == Eviction.Kind.ALL) {
      for (int victim = 0; victim < there; victim++) {
        kept.addVictims(victim);
      }
      return kept.build();
    }
    int[] victims = eviction.victims();
    int[] sorted = victims.clone();
    Arrays.sort(sorted);
    boolean wrong = sorted.length == 0 || sorted[0] < 0 || sorted[sorted.length - 1] >= there;
    for (int at = 1; at < sorted.length; at++) {
      wrong |= sorted[at] == sorted[at - 1];
    }
    if (wrong) {
      throw CallException.internal(
          "preempt returned victims %s for position %d, which has %d; expected each at most once, at least one"
              + " victim, or Eviction.spare()",
          Arrays.toString(victims), position, there);
    }
    for (int victim : sorted) {
      kept.addVictims(victim);
    }
    return kept.build();
  }

  /**
   * Scores with the verdicts. If they cannot be given, the gateway requests them in a separate
   * call: these nodes include rejected ones, for which the policy may not expect to be called.
   */
  private static void earlyScores(Question question, FilterResponse.Builder response) {
    try {
      response.setScores(scores(question));
    } catch (Exception | StackOverflowError failure) {
      Failures.of(failure);
    }
  }

  private static Scores scores(Question question) throws NotReadyException {
    Policy policy = question.prepared.policy();
    policy.ready();
    int[] values = policy.scoreAll(question.pod, question.nodes);
    counted("scoreAll", values == null ? 0 : values.length, question);
    Scores.Builder scores = Scores.newBuilder();
    for (int value : values) {
      scores.addValues(value);
    }
    return scores.build();
  }

  /**
   * A policy that answers for more or fewer nodes than the call has cannot be trusted to have
   * matched them.
   */
  private static void counted(String method, int given, Question question) {
    int asked = question.nodes.size();
    if (given != asked) {
      throw CallException.internal(
          "%s returned %d answers for %d nodes; expected one per node", method, given, asked);
    }
  }

  /** The rejected nodes, by reason, kind and rule, in the order of their first occurrence. */
  private static Iterable<Rejection.Builder> rejections(List<Verdict> verdicts) {
    Map<Verdict, Rejection.Builder> groups = new LinkedHashMap<>();
    int position = 0;
    for (Verdict verdict : verdicts) {
      Objects.requireNonNull(verdict, "a verdict is null");
      if (!verdict.isAccepted()) {
        Rejection.Builder group = groups.get(verdict);
        if (group == null) {
          group =
              Rejection.newBuilder()
                  .setReason(Utf8.cut(verdict.reason(), MAX_REASON_BYTES))
                  .setRule(Utf8.cut(verdict.rule(), MAX_RULE_BYTES))
                  .setPreemptionMayHelp(verdict.mayPreemptionHelp());
          groups.put(verdict, group);
        }
        group.addPositions(position);
      }
      position++;
    }
    return groups.values();
  }

  private static Result done(Question question, Trace trace) {
    trace.attribute("extender.nodes.evaluated", question.nodes.size());
    return Result.newBuilder()
        .setEvaluated(question.nodes.size())
        .setRevision(question.prepared.declaration().response.getRevision())
        .build();
  }

  private static Result missed(Question question, Trace trace) {
    trace.attribute("extender.miss", question.miss.name());
    return Result.newBuilder()
        .setMiss(question.miss)
        .setRevision(question.prepared.declaration().response.getRevision())
        .build();
  }
}
