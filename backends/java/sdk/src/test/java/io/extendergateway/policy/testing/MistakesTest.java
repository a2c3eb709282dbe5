package io.extendergateway.policy.testing;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.*;
import io.extendergateway.policy.v1beta1.Resources;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What the policy API forbids, and what it allows although it looks similar. */
class MistakesTest {
  private static final TestPod POD = new TestPod("shop");
  private static final List<TestNode> NODES = List.of(new TestNode("a"), new TestNode("b"));
  private static final AtomicInteger ASKED = new AtomicInteger();

  /** Answers by functions of the node. */
  private record Faulty(Function<Node, String> reason, Function<Node, Integer> score)
      implements Policy {
    @Override
    public Info info() {
      Reads everything = Reads.everything();
      Verb verb = Verb.perNode().pure().reads(everything);
      Hook hook = Hook.changes(ChangedPart.NODE_LABELS).pure().reads(everything);
      return Info.of("p", "1")
          .filters(verb)
          .scores(verb, Scale.between(0, 10))
          .beforeFilter(Hook.changes(ChangedPart.POD_LABELS).pure())
          .beforeFilterNodes(hook)
          .beforeScore(hook);
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      String text = reason.apply(node);
      return text == null ? Verdict.accept() : Verdict.reject(text);
    }

    @Override
    public int score(Pod pod, Node node) {
      return score.apply(node);
    }

    @Override
    public PodChange beforeFilter(Pod pod) {
      String text = reason.apply(null);
      return text == null
          ? PodChange.none().setAnnotation("undeclared", "")
          : PodChange.none().setLabel("asked", text);
    }

    @Override
    public NodeChange beforeScoreNode(Pod pod, Node node) {
      return beforeFilterNode(pod, node);
    }

    @Override
    public NodeChange beforeFilterNode(Pod pod, Node node) {
      String text = reason.apply(node);
      return text == null
          ? NodeChange.none().addAllocatable(Resources.getDefaultInstance())
          : NodeChange.none().setLabel("asked", text);
    }
  }

  private static Policy rejecting(Function<Node, String> reason) {
    return new Faulty(reason, null);
  }

  private static List<Testing.Rejected> filtered(Source policy) {
    return Testing.filter(policy, POD, NODES);
  }

  private static Executable forbidden(String expected, Executable call) {
    return () -> {
      ASKED.set(0);
      String text = assertThrows(NoAnswerException.class, call).getMessage();
      assertTrue(text.startsWith(expected), text);
    };
  }

  @Test
  void whatThePolicyApiForbidsFailsTheTest() {
    Function<Node, String> number = node -> String.valueOf(node.name().charAt(0) - 'a');
    Policy used = rejecting(node -> node.usage().map(usage -> "used").orElse(null));
    Policy counting = rejecting(node -> ASKED.getAndIncrement() == 0 ? "taken" : null);
    assertAll(
        forbidden(
            "score returned 1000 for node \"a\"; the declared scale is 0 to 10: clamp the score, or declare another scale",
            () -> Testing.score(new Faulty(null, node -> 1000), POD, NODES)),
        forbidden(
            "score is declared pure and gave another answer about node \"a\"",
            () -> Testing.score(new Faulty(null, node -> ASKED.getAndIncrement()), POD, NODES)),
        forbidden(
            "filter rejects node \"a\" without a reason; say in a constant text",
            () -> filtered(rejecting(node -> " "))),
        forbidden(
            "filter rejects node \"a\" with the reason \"no?way\", which has control characters; write one line",
            () -> filtered(rejecting(node -> "no\nway"))),
        forbidden(
            "filter rejects node \"a\" with the reason \"0 of 5 slots used\" and node \"b\" with \"1 of 5 slots used\"; leave",
            () -> filtered(rejecting(node -> number.apply(node) + " of 5 slots used"))),
        forbidden(
            "filter is declared pure and gave another answer about node \"a\" when it was asked again; a pure verb",
            () -> filtered(counting)),
        forbidden(
            "filter rejects node \"a\" with the reason \"no?way\"",
            () -> filtered(rejecting(node -> "no" + (char) 0x85 + "way"))),
        forbidden(
            "beforeFilter is declared pure and gave another answer about the pod when it was asked again; a pure verb",
            () -> Testing.beforeFilter(rejecting(node -> "" + ASKED.getAndIncrement()), POD)),
        forbidden(
            "beforeScore is declared pure and gave another answer about node \"a\"",
            () -> Testing.beforeScore(rejecting(node -> "" + ASKED.getAndIncrement()), POD, NODES)),
        forbidden(
            "beforeFilterNodes is declared pure and gave another answer about node \"a\"",
            () ->
                Testing.beforeFilterNodes(
                    rejecting(node -> "" + ASKED.getAndIncrement()), POD, NODES)),
        forbidden(
            "beforeFilter changes [POD_ANNOTATIONS], which its Hook does not declare; add it to Hook.changes",
            () -> Testing.beforeFilter(rejecting(node -> null), POD)),
        forbidden(
            "beforeFilterNodes changes [NODE_ALLOCATABLE], which its Hook does not declare",
            () -> Testing.beforeFilterNodes(rejecting(node -> null), POD, NODES)),
        forbidden(
            "filter failed: USAGE of the node is read and not declared; declare it with Reads.node(NodePart.USAGE)",
            () -> filtered(used)));
    assertEquals(List.of(), filtered(Testing.everything(used)));
    assertEquals(2, filtered(rejecting(node -> "rack-" + number.apply(node))).size());
    Function<Node, Integer> one = node -> node.name().equals("a") ? Policy.NO_OPINION : 7;
    assertEquals(List.of(Policy.NO_OPINION, 7), Testing.score(new Faulty(null, one), POD, NODES));
  }

  @Test
  void aWrongEvictionNamesItsNode() throws Throwable {
    var candidates = NODES.stream().map(TestCandidate::new).toList();
    candidates.forEach(candidate -> candidate.victim("u", POD));
    var policy =
        new Policy() {
          @Override
          public Info info() {
            return Info.of("p", "1").preempts(Verb.perNode());
          }

          @Override
          public List<Eviction> preemptAll(Pod pod, List<Candidate> all) {
            return List.of(Eviction.all(), Eviction.only(3));
          }
        };
    forbidden(
            "preempt returned victims [3] for node \"b\", which has 1; ",
            () -> Testing.preempt(policy, POD, candidates))
        .execute();
  }
}
