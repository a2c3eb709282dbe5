package io.extendergateway.policy;

import static io.extendergateway.policy.Sizes.Shape.QUESTION;
import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_FILTER;
import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_FILTER_NODES;
import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_SCORE;
import static io.extendergateway.policy.v1beta1.Verb.VERB_BIND;
import static io.extendergateway.policy.v1beta1.Verb.VERB_FILTER;
import static io.extendergateway.policy.v1beta1.Verb.VERB_PREEMPT;
import static io.extendergateway.policy.v1beta1.Verb.VERB_SCORE;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.BindResponse;
import io.extendergateway.policy.v1beta1.ChangeRequest;
import io.extendergateway.policy.v1beta1.ChangeResponse;
import io.extendergateway.policy.v1beta1.Effects;
import io.extendergateway.policy.v1beta1.FilterRequest;
import io.extendergateway.policy.v1beta1.FilterResponse;
import io.extendergateway.policy.v1beta1.GetInfoResponse;
import io.extendergateway.policy.v1beta1.HookServiceGrpc;
import io.extendergateway.policy.v1beta1.IntrospectionServiceGrpc;
import io.extendergateway.policy.v1beta1.NodeReads;
import io.extendergateway.policy.v1beta1.NodeTableServiceGrpc;
import io.extendergateway.policy.v1beta1.OutcomeServiceGrpc;
import io.extendergateway.policy.v1beta1.PreemptRequest;
import io.extendergateway.policy.v1beta1.PreemptResponse;
import io.extendergateway.policy.v1beta1.Scope;
import io.extendergateway.policy.v1beta1.ScoreRequest;
import io.extendergateway.policy.v1beta1.ScoreResponse;
import io.extendergateway.policy.v1beta1.VerbInfo;
import io.extendergateway.policy.v1beta1.WatchServiceGrpc;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * An {@link Info} as the answer to the handshake, and what a call needs of it. What the contract
 * does not allow to declare is rejected by the gateway, and named by policy-conformance.
 */
final class Declaration {
  /** The package of the contract that this SDK implements. */
  static final String API_VERSION = "extender.policy.v1beta1";

  final GetInfoResponse response;
  final boolean observesOutcomes;
  private final Map<Kind, Terms> terms = new EnumMap<>(Kind.class);
  private final Map<String, ShownPath> paths;

  /** The verbs of the services. */
  enum Kind {
    FILTER(
        "Filter",
        VERB_FILTER,
        QUESTION,
        FilterRequest.getDefaultInstance(),
        FilterResponse.getDefaultInstance()),
    SCORE(
        "Score",
        VERB_SCORE,
        QUESTION,
        ScoreRequest.getDefaultInstance(),
        ScoreResponse.getDefaultInstance()),
    PREEMPT(
        "Preempt",
        VERB_PREEMPT,
        Sizes.Shape.PREEMPT,
        PreemptRequest.getDefaultInstance(),
        PreemptResponse.getDefaultInstance()),
    BIND(
        "Bind",
        VERB_BIND,
        Sizes.Shape.BIND,
        BindRequest.getDefaultInstance(),
        BindResponse.getDefaultInstance()),
    BEFORE_FILTER("BeforeFilter", VERB_BEFORE_FILTER),
    BEFORE_FILTER_NODES("BeforeFilterNodes", VERB_BEFORE_FILTER_NODES),
    BEFORE_SCORE("BeforeScore", VERB_BEFORE_SCORE);

    /** All hooks have this method. */
    static final String HOOK_METHOD = "Change";

    private static final List<Kind> HOOKS = Stream.of(values()).filter(Kind::isHook).toList();

    /** The name of a verb's method, or of a hook. */
    final String method;

    final io.extendergateway.policy.v1beta1.Verb message;

    /** What takes memory in a request. */
    @SuppressWarnings("ImmutableEnumChecker")
    final Sizes.Shape shape;

    /** An empty request. */
    final Message request;

    /** An empty response. */
    final Message response;

    /** A hook. */
    Kind(String method, io.extendergateway.policy.v1beta1.Verb message) {
      this(
          method,
          message,
          QUESTION,
          ChangeRequest.getDefaultInstance(),
          ChangeResponse.getDefaultInstance());
    }

    Kind(
        String method,
        io.extendergateway.policy.v1beta1.Verb message,
        Sizes.Shape shape,
        Message request,
        Message response) {
      this.method = method;
      this.message = message;
      this.shape = shape;
      this.request = request;
      this.response = response;
    }

    boolean isHook() {
      return compareTo(BIND) > 0;
    }

    /** Whether requests are about nodes, and not about the pod alone. */
    boolean hasNodes() {
      return this != BIND && this != BEFORE_FILTER;
    }

    /** The hook of this number; all of them if there is none. */
    static List<Kind> hooks(int number) {
      List<Kind> one = HOOKS.stream().filter(hook -> hook.message.getNumber() == number).toList();
      return one.isEmpty() ? HOOKS : one;
    }

    /** What an encoded request of this method is for, as texts name it. */
    static String named(String method, byte[] request) {
      if (method.equals(Outcomes.METHOD)) {
        return Outcomes.VERB;
      }
      List<Kind> hooks = method.equals(HOOK_METHOD) ? hooks(Wire.hook(request)) : List.of();
      return hooks.size() == 1 ? hooks.get(0).method : method;
    }
  }

  /** What a verb's declaration means for a call. */
  static final class Terms {
    final Verb verb;
    final Layout reads;
    final RowParts rowParts;

    /** What a hook changes; nothing in other verbs. */
    final Set<ChangedPart> changes;

    private Terms(Kind kind, Hook hook) {
      verb = hook.verb;
      reads = new Layout(kind.hasNodes() ? verb.reads : verb.reads.withoutNodes());
      rowParts = RowParts.of(reads.rows);
      changes = hook.changes;
    }

    /**
     * Whether these scores may be given with the verdicts, before the other policies have filtered.
     */
    boolean mayComeWith(Terms filter) {
      return !verb.isWholeSet && !verb.hasSideEffects && reads.sha256.equals(filter.reads.sha256);
    }
  }

  /** The parts that a row must have. */
  record RowParts(boolean name, boolean facts) {
    private static final NodeReads NOTHING = NodeReads.getDefaultInstance();
    private static final NodeReads NAME =
        NodeReads.newBuilder().addPartsValue(NodePart.NAME.number()).build();

    /** With this declaration. */
    static RowParts of(NodeReads reads) {
      boolean name =
          reads.getEverything() || reads.getPartsValueList().contains(NodePart.NAME.number());
      return new RowParts(name, !reads.equals(NOTHING) && !reads.equals(NAME));
    }
  }

  /** Rejects what no gateway can reject, because nothing tells it. */
  Declaration(Info info) {
    if (info.served.isEmpty()) {
      throw new DeclarationException(
          "no verb is declared; call Info.filters, Info.scores, Info.preempts or Info.binds, or declare a hook");
    }
    info.served.forEach(this::declare);
    paths =
        info.paths.stream()
            .collect(Collectors.toMap(ShownPath::path, path -> path, (one, other) -> one));
    response = response(info);
    observesOutcomes = info.observesOutcomes;
  }

  /** {@code null} if the verb is not declared. */
  Terms terms(Kind verb) {
    return terms.get(verb);
  }

  /** {@code null} if the path is not declared. */
  ShownPath shown(String path) {
    return paths.get(path);
  }

  /** Whether requests for this declaration can be answered with the other one, too. */
  boolean readsAs(Declaration other) {
    return Stream.of(Kind.values())
        .allMatch(verb -> Objects.equals(readsSha256(verb), other.readsSha256(verb)));
  }

  /** {@code null} if the verb is not declared. */
  ByteString readsSha256(Kind verb) {
    Terms terms = terms(verb);
    return terms == null ? null : terms.reads.sha256;
  }

  private void declare(Kind kind, Hook hook) {
    if (hook.verb.isPure && hook.verb.hasSideEffects) {
      throw new DeclarationException(
          "%s is declared pure and with side effects; a pure verb changes nothing, remove one of them"
              .formatted(Failures.inSentence(kind.method)));
    }
    terms.put(kind, new Terms(kind, hook));
  }

  private GetInfoResponse response(Info info) {
    GetInfoResponse.Builder response =
        GetInfoResponse.newBuilder()
            .setName(info.name)
            .setVersion(info.version)
            .setRevision(info.revision == null ? info.version : info.revision)
            .setApiVersion(API_VERSION)
            .setMaxRequestBytes(PolicyServer.MAX_MESSAGE_BYTES)
            .setRejectedConfiguration(
                Utf8.cut(info.rejectedConfiguration, Limits.REJECTED_CONFIGURATION_BYTES));
    // There are no tables for rows that are names.
    boolean readsFacts = terms.values().stream().anyMatch(verb -> verb.rowParts.facts());
    if (readsFacts && info.keepsTable) {
      response.addServices(NodeTableServiceGrpc.SERVICE_NAME);
    }
    if (!info.paths.isEmpty()) {
      response.addServices(IntrospectionServiceGrpc.SERVICE_NAME);
    }
    if (terms.keySet().stream().anyMatch(Kind::isHook)) {
      response.addServices(HookServiceGrpc.SERVICE_NAME);
    }
    if (info.observesOutcomes) {
      response.addServices(OutcomeServiceGrpc.SERVICE_NAME);
    }
    response.addServices(WatchServiceGrpc.SERVICE_NAME);
    info.paths.forEach(path -> response.addIntrospection(path.message()));
    terms.keySet().forEach(kind -> response.addVerbs(verbInfo(kind, info)));
    return response.build();
  }

  private VerbInfo verbInfo(Kind kind, Info info) {
    Terms terms = terms(kind);
    VerbInfo.Builder verb =
        VerbInfo.newBuilder().setVerb(kind.message).setReads(terms.reads.message);
    if (kind == Kind.BIND) {
      return verb.build();
    }
    verb.setScope(terms.verb.isWholeSet ? Scope.SCOPE_WHOLE_SET : Scope.SCOPE_NODE)
        .setEffects(effects(terms.verb));
    terms.changes.forEach(part -> verb.addChanges(part.message));
    if (kind == Kind.SCORE) {
      Scale scale = info.scale;
      if (scale.bounds != null) {
        verb.setScoreMin(scale.bounds.least()).setScoreMax(scale.bounds.largest());
      }
      verb.setNormalization(scale.normalization.message).setReversed(scale.isReversed);
    }
    return verb.build();
  }

  private static Effects effects(Verb verb) {
    if (verb.hasSideEffects) {
      return Effects.EFFECTS_CHANGES_OUTSIDE;
    }
    return verb.isPure ? Effects.EFFECTS_PURE : Effects.EFFECTS_READS_OUTSIDE;
  }
}
