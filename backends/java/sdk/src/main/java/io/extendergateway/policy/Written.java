package io.extendergateway.policy;

import io.extendergateway.policy.Declaration.Kind;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Which methods of a policy its author wrote. */
final class Written {
  /** Those that answer a verb, of which one is enough. */
  private static final Map<Kind, List<String>> METHODS =
      Map.of(
          Kind.FILTER, List.of("filter", "filterAll"),
          Kind.SCORE, List.of("score", "scoreAll"),
          Kind.PREEMPT, List.of("preempt", "preemptAll"),
          Kind.BIND, List.of("bind", "bindAsync"),
          Kind.BEFORE_FILTER, List.of("beforeFilter"),
          Kind.BEFORE_FILTER_NODES, List.of("beforeFilterNodes", "beforeFilterNode"),
          Kind.BEFORE_SCORE, List.of("beforeScore", "beforeScoreNode", "beforeScorePod"));

  private Written() {}

  /** Rejects what is declared and has no method: the default would answer. */
  static void check(Policy policy, Info info) {
    for (Kind verb : info.served.keySet()) {
      List<String> methods = METHODS.get(verb);
      check(policy, methods.get(0) + (verb.isHook() ? "" : "s"), methods);
    }
    if (info.observesOutcomes) {
      check(policy, "observesOutcomes", List.of("observe"));
    }
  }

  private static void check(Policy policy, String declared, List<String> methods) {
    long defaults =
        Stream.of(policy.getClass().getMethods())
            .filter(method -> method.getDeclaringClass() == Policy.class)
            .filter(method -> methods.contains(method.getName()))
            .count();
    if (defaults == methods.size()) {
      throw new DeclarationException(
          "%s declares Info.%s and has no method for it; write %s, or remove the declaration"
              .formatted(policy.getClass().getName(), declared, String.join(" or ", methods)));
    }
  }
}
