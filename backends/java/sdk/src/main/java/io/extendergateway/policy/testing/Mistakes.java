package io.extendergateway.policy.testing;

import io.extendergateway.policy.Policy;
import io.extendergateway.policy.Source;
import io.extendergateway.policy.v1beta1.Effects;
import io.extendergateway.policy.v1beta1.Verb;
import io.extendergateway.policy.v1beta1.VerbInfo;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/**
 * What the policy API forbids a policy to answer, and a gateway clamps, cleans or notices by
 * chance.
 */
final class Mistakes {
  /** A number that is no part of a name such as rack-1. */
  private static final Pattern NUMBER =
      Pattern.compile("(?<![\\p{L}\\p{N}_./:-])\\p{N}+([.,]\\p{N}+)*");

  private static final Pattern CONTROL = Pattern.compile("\\p{Cc}");

  private static final Map<Verb, String> NAMES =
      Map.of(
          Verb.VERB_FILTER, "filter",
          Verb.VERB_SCORE, "score",
          Verb.VERB_BEFORE_FILTER, "beforeFilter",
          Verb.VERB_BEFORE_FILTER_NODES, "beforeFilterNodes",
          Verb.VERB_BEFORE_SCORE, "beforeScore");

  private Mistakes() {}

  /**
   * Asks about each node; a pure verb twice, the second time with each node at another position.
   */
  static <A> List<A> perNode(
      Source policy, Verb verb, List<TestNode> nodes, Function<List<TestNode>, List<A>> ask) {
    List<A> first = ask.apply(nodes);
    if (isPure(policy, verb)) {
      List<TestNode> rotated = new ArrayList<>(nodes);
      Collections.rotate(rotated, 1);
      List<A> again = ask.apply(rotated);
      for (int at = 0; at < first.size(); at++) {
        if (!first.get(at).equals(again.get((at + 1) % first.size()))) {
          throw impure(verb, "node \"%s\"".formatted(nodes.get(at).name()));
        }
      }
    }
    return first;
  }

  /** Asks about the pod; a pure hook twice. */
  static <A> A ofPod(Source policy, Verb verb, Supplier<A> ask) {
    A first = ask.get();
    if (isPure(policy, verb) && !ask.get().equals(first)) {
      throw impure(verb, "the pod");
    }
    return first;
  }

  private static NoAnswerException impure(Verb verb, String about) {
    return new NoAnswerException(
        ("%s is declared pure and gave another answer about %s when it was asked again; a pure verb depends on the"
                + " pod, the node and the args alone: declare it without pure, or name in the revision what it depends on")
            .formatted(NAMES.get(verb), about));
  }

  private static boolean isPure(Source policy, Verb verb) {
    return declared(policy, verb).getEffects() == Effects.EFFECTS_PURE;
  }

  private static VerbInfo declared(Source policy, Verb verb) {
    return Testing.info(policy).getVerbsList().stream()
        .filter(info -> info.getVerb() == verb)
        .findFirst()
        .orElseThrow();
  }

  static void checkScores(Source policy, List<TestNode> nodes, List<Integer> scores) {
    VerbInfo scale = declared(policy, Verb.VERB_SCORE);
    for (int at = 0; at < scores.size(); at++) {
      int score = scores.get(at);
      boolean isOutside = score < scale.getScoreMin() || score > scale.getScoreMax();
      if (score != Policy.NO_OPINION && scale.hasScoreMin() && isOutside) {
        throw new NoAnswerException(
            "score returned %d for node \"%s\"; the declared scale is %d to %d: clamp the score, or declare another scale"
                .formatted(score, nodes.get(at).name(), scale.getScoreMin(), scale.getScoreMax()));
      }
    }
  }

  static void checkReasons(List<Testing.Rejected> rejections) {
    Map<String, Testing.Rejected> known = new HashMap<>();
    for (Testing.Rejected rejected : rejections) {
      String reason = rejected.reason();
      String rejects = "filter rejects node \"%s\" with".formatted(rejected.node());
      if (reason.isBlank()) {
        throw new NoAnswerException(
            rejects + "out a reason; say in a constant text what is wrong with the node");
      }
      if (CONTROL.matcher(reason).find()) {
        throw new NoAnswerException(
            "%s the reason \"%s\", which has control characters; write one line of text"
                .formatted(rejects, CONTROL.matcher(reason).replaceAll("?")));
      }
      var other = known.putIfAbsent(NUMBER.matcher(reason).replaceAll("0"), rejected);
      if (other != null && !other.reason().equals(reason)) {
        throw new NoAnswerException(
            ("filter rejects node \"%s\" with the reason \"%s\" and node \"%s\" with \"%s\"; leave numbers out of"
                    + " reasons: each new text makes kube-scheduler retry the pod")
                .formatted(other.node(), other.reason(), rejected.node(), reason));
      }
    }
  }
}
