package io.extendergateway.policy;

import com.google.protobuf.Message;
import io.extendergateway.policy.Backend.Prepared;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.Declaration.Terms;
import io.extendergateway.policy.v1beta1.BindOutcome;
import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.BindResponse;
import io.extendergateway.policy.v1beta1.FilterRequest;
import io.extendergateway.policy.v1beta1.FilterResponse;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.GetInfoResponse;
import io.extendergateway.policy.v1beta1.KeptCandidate;
import io.extendergateway.policy.v1beta1.PreemptRequest;
import io.extendergateway.policy.v1beta1.PreemptResponse;
import io.extendergateway.policy.v1beta1.Rejection;
import io.extendergateway.policy.v1beta1.ScoreResponse;
import io.extendergateway.policy.v1beta1.Scores;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.function.Function;
import java.util.stream.IntStream;

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

  private final Backend backend;
  private final Questions questions;
  private final Executor binds;

  /** Binds, which wait, are run by the executor. */
  Answer(Backend backend, Questions questions, Executor binds) {
    this.backend = backend;
    this.questions = questions;
    this.binds = binds;
  }

  /** One answer for each, in their order. */
  static <T, A> List<A> each(List<T> all, Function<T, A> answer) {
    List<A> answers = new ArrayList<>(all.size());
    all.forEach(one -> answers.add(answer.apply(one)));
    return answers;
  }

  /** The answer to the handshake. */
  GetInfoResponse info(GetInfoRequest request) {
    return backend.policyFor(request.getArgs()).declaration().response;
  }

  /** The answer to a verb or a hook; that of a bind comes by a future. */
  Object answer(Kind kind, Asked asked, Trace trace) throws Exception {
    Message request = asked.request;
    if (kind == Kind.BIND) {
      return bind((BindRequest) request, trace);
    }
    Question question = questions.about(kind, asked, trace);
    Message.Builder response = kind.response.newBuilderForType();
    if (question.miss() == null) {
      if (request instanceof PreemptRequest preemption) {
        checkCandidates(preemption, question);
      }
      question.policy().ready();
      response = decided(kind, request, question, trace);
    }
    var result = response.getDescriptorForType().findFieldByName("result");
    return response.setField(result, question.result(trace)).build();
  }

  /** What the policy decides. */
  private static Message.Builder decided(
      Kind kind, Message request, Question question, Trace trace) {
    return switch (kind) {
      case FILTER -> filter((FilterRequest) request, question, trace);
      case SCORE -> ScoreResponse.newBuilder().setScores(scores(question));
      case PREEMPT -> preempt((PreemptRequest) request, question);
      case BEFORE_FILTER -> Hooks.beforeFilter(question);
      case BEFORE_FILTER_NODES -> Hooks.beforeFilterNodes(question);
      case BEFORE_SCORE -> Hooks.beforeScore(question);
      case BIND -> throw new IllegalArgumentException("a bind is not decided but done");
    };
  }

  /** Which of the nodes the pod may not run on; with scores if they are wanted and may be given. */
  private static FilterResponse.Builder filter(
      FilterRequest request, Question question, Trace trace) {
    List<Verdict> verdicts =
        question.counted(
            "filterAll", question.policy().filterAll(question.pod(), question.nodes()));
    FilterResponse.Builder response = FilterResponse.newBuilder();
    long rejected = 0;
    for (Rejection.Builder rejection : rejections(verdicts)) {
      rejected += rejection.getPositionsCount();
      response.addRejections(rejection);
    }
    trace.attribute("extender.nodes.rejected", rejected);
    Terms score = question.prepared().declaration().terms(Kind.SCORE);
    if (request.getWantScores() && score != null && score.mayComeWith(question.terms())) {
      earlyScores(question.in(score), response);
    }
    return response;
  }

  /** Which pods may be evicted on which of the nodes. */
  private static PreemptResponse.Builder preempt(PreemptRequest request, Question question) {
    List<Candidate> candidates = candidates(request, question);
    List<Eviction> evictions =
        question.counted("preemptAll", question.policy().preemptAll(question.pod(), candidates));
    PreemptResponse.Builder response = PreemptResponse.newBuilder();
    for (int position = 0; position < candidates.size(); position++) {
      Eviction eviction = CallException.returned(evictions.get(position), "an eviction is null");
      if (eviction.kind != Eviction.Kind.SPARE) {
        int there = candidates.get(position).victims().size();
        response.addKept(kept(position, question.named(position), there, eviction));
      }
    }
    return response;
  }

  /** Binds the pod, or declines; failures come by the future or are thrown. */
  private CompletionStage<BindResponse> bind(BindRequest request, Trace trace) throws Exception {
    if (!request.hasCall()) {
      throw CallException.missing("call");
    }
    Prepared prepared = questions.policyFor(request.getCall(), Kind.BIND, trace);
    Terms terms = Questions.termsOf(prepared, Kind.BIND);
    Questions.checkPurpose(request.getCall(), true);
    Pod pod = null;
    if (request.hasPod()) {
      pod = Questions.pod(request.getPod(), request.getCall(), terms);
    }
    required("namespace", request.getNamespace());
    required("name", request.getName());
    required("uid", request.getUid());
    required("node", request.getNode());
    var facts = request.getPod().getFacts();
    var identity = request.getPod().getIdentity();
    same("pod.facts.namespace", facts.getNamespace(), request.getNamespace());
    same("pod.identity.name", identity.getName(), request.getName());
    same("pod.identity.uid", identity.getUid(), request.getUid());
    BindAsk ask = new BindAsk(request, pod);
    trace.about(ask::subject, 0);
    prepared.policy().ready();
    CompletionStage<Bind> bound = prepared.policy().bindAsync(ask, trace.around(binds));
    return Bound.of(bound, Answer::response);
  }

  private static void required(String field, String given) {
    if (given.isEmpty()) {
      throw CallException.missing(field);
    }
  }

  /**
   * Rejects facts about another pod: what a policy decides from them would be done to this one.
   * What the verb does not read is left out.
   */
  private static void same(String field, String told, String meant) {
    if (!told.isEmpty() && !told.equals(meant)) {
      throw CallException.invalid("%s is that of another pod than the one to bind", field);
    }
  }

  private static BindResponse response(Bind bind) {
    CallException.returned(bind, "the outcome of bind is null");
    BindOutcome notBound =
        bind.isDeclined() ? BindOutcome.BIND_OUTCOME_DECLINED : BindOutcome.BIND_OUTCOME_NOT_BOUND;
    return BindResponse.newBuilder()
        .setOutcome(bind.isBound() ? BindOutcome.BIND_OUTCOME_BOUND : notBound)
        .setMessage(Utf8.cut(bind.why(), Limits.BIND_MESSAGE_BYTES))
        .build();
  }

  private static void checkCandidates(PreemptRequest request, Question question) {
    int given = request.getCandidatesCount();
    if (given != question.nodes().size()) {
      throw CallException.invalid(
          "nodes.count is %d and there are %d candidates; each node has one",
          question.nodes().size(), given);
    }
    Layout.Fields fields = question.terms().reads.pod;
    for (int position = 0; position < given; position++) {
      var message = request.getCandidates(position);
      if (message.getVictimsCount() == 0 && !message.getPlaceholder()) {
        throw CallException.invalid(
            "candidates[%d] has no victims and is no placeholder; expected one of them", position);
      }
      for (int victim = 0; victim < message.getVictimsCount(); victim++) {
        String mismatch = Values.mismatch(message.getVictims(victim).getPod(), fields);
        if (mismatch != null) {
          throw CallException.invalid(
              "candidates[%d].victims[%d].pod.facts.%s", position, victim, mismatch);
        }
      }
    }
  }

  private static List<Candidate> candidates(PreemptRequest request, Question question) {
    Terms terms = question.terms();
    Access access = new Access(terms.reads.pod, terms.verb.isPure);
    List<Candidate> candidates = new ArrayList<>();
    for (Node node : question.nodes()) {
      var message = request.getCandidates(candidates.size());
      candidates.add(new Candidate(node, message, access, request.getCall()));
    }
    return candidates;
  }

  private static KeptCandidate kept(int position, String node, int there, Eviction eviction) {
    KeptCandidate.Builder kept = KeptCandidate.newBuilder().setPosition(position);
    if (eviction.kind == Eviction.Kind.ALL) {
      for (int victim = 0; victim < there; victim++) {
        kept.addVictims(victim);
      }
      return kept.build();
    }
    int[] victims = eviction.victims();
    int[] sorted =
        IntStream.of(victims).filter(at -> at >= 0 && at < there).sorted().distinct().toArray();
    if (sorted.length == 0 || sorted.length < victims.length) {
      throw CallException.internal(
          "preempt returned victims %s for %s, which has %d; expected each at most once, at least one"
              + " victim, or Eviction.spare()",
          Arrays.toString(victims), node, there);
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
      question.policy().ready();
      response.setScores(scores(question));
    } catch (Exception | StackOverflowError failure) {
      Failures.of(failure, Kind.SCORE.method);
    }
  }

  private static Scores scores(Question question) {
    int[] values = question.policy().scoreAll(question.pod(), question.nodes());
    question.counted("scoreAll", values == null ? 0 : values.length);
    Scores.Builder scores = Scores.newBuilder();
    for (int position = 0; position < values.length; position++) {
      boolean isAbsent = values[position] == Policy.NO_OPINION;
      scores.addValues(isAbsent ? 0 : values[position]);
      if (isAbsent) {
        scores.addAbsent(position);
      }
    }
    return scores.build();
  }

  /** The rejected nodes, by verdict, in the order of their first occurrence. */
  private static Iterable<Rejection.Builder> rejections(List<Verdict> verdicts) {
    Map<Verdict, Rejection.Builder> groups = new LinkedHashMap<>();
    int position = 0;
    for (Verdict verdict : verdicts) {
      CallException.returned(verdict, "a verdict is null");
      if (!verdict.isAccepted()) {
        Rejection.Builder group = groups.get(verdict);
        if (group == null) {
          group = rejection(verdict);
          groups.put(verdict, group);
        }
        group.addPositions(position);
      }
      position++;
    }
    return groups.values();
  }

  private static Rejection.Builder rejection(Verdict verdict) {
    Rejection.Builder rejection =
        Rejection.newBuilder()
            .setReason(Utf8.cut(verdict.reason(), MAX_REASON_BYTES))
            .setRule(Utf8.cut(verdict.rule(), Limits.RULE_BYTES))
            .setKind(verdict.kind());
    verdict.retryAfterSeconds().ifPresent(rejection::setRetryAfterSeconds);
    return rejection;
  }
}
