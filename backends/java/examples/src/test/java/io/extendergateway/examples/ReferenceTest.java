package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.extendergateway.policy.Backend;
import io.extendergateway.policy.Bind;
import io.extendergateway.policy.Rehearsal.NoAnswerException;
import io.extendergateway.policy.testing.TestCandidate;
import io.extendergateway.policy.testing.TestNode;
import io.extendergateway.policy.testing.TestPod;
import io.extendergateway.policy.testing.Testing;
import io.extendergateway.policy.testing.Testing.Kept;
import io.extendergateway.policy.testing.Testing.Rejected;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ReferenceTest {
  private static final Backend CONFIGURED =
      Backend.configured(Reference.Args.class, Reference::new);
  private static final Backend POLICY =
      Testing.withArgs(CONFIGURED, "{\"zone\":\"z1\",\"most\":2}");

  private static TestPod pod() {
    return new TestPod("shop").label("app", "z2").owner("web").requests(1000, 0);
  }

  @Test
  void theFirstRuleThatHoldsRejects() {
    List<TestNode> nodes =
        List.of(
            new TestNode("closed").label("zone", "z1").taint("t", "", "NoSchedule"),
            new TestNode("tainted").taint("t", "", "NoExecute"),
            new TestNode("preferred").taint("t", "", "PreferNoSchedule").allocatable(1000, 0),
            new TestNode("unknown"),
            new TestNode("small").allocatable(999, 0).running(pod(), 2),
            new TestNode("crowded").allocatable(1000, 0).running(pod(), 2),
            new TestNode("fine").allocatable(1000, 0).running(pod(), 1));
    assertEquals(
        List.of(
            new Rejected("closed", "zone is closed"),
            new Rejected("tainted", "taint is not tolerated"),
            new Rejected("unknown", "not enough CPU"),
            new Rejected("small", "not enough CPU"),
            new Rejected("crowded", "too many pods of one owner")),
        Testing.filter(POLICY, pod(), nodes));
  }

  @Test
  void scoresAreThoseOfAllLanguages() {
    List<TestNode> nodes = new ArrayList<>();
    nodes.add(new TestNode("a").allocatable(1999, 0).label("zone", "z2").taint("t", "", "X"));
    nodes.add(new TestNode("b").allocatable(Long.MAX_VALUE, 0));
    nodes.add(new TestNode("c").allocatable(-5, 0));
    TestNode tainted = new TestNode("d");
    for (int at = 0; at < 30; at++) {
      tainted.taint("t" + at, "", "NoSchedule");
    }
    nodes.add(tainted);
    assertEquals(List.of(-21, 1_000_000, 0, -1000), Testing.score(POLICY, pod(), nodes));
  }

  @Test
  void onlyKnownVictimsOfLowerPriorityAreEvicted() {
    assertEquals(
        List.of(new Kept("a", List.of("low"))),
        Testing.preempt(
            POLICY,
            pod().priority(10),
            List.of(
                new TestCandidate(new TestNode("a"))
                    .victim("same", new TestPod("x").priority(10))
                    .victim("low", new TestPod("x").priority(9))
                    .unknownVictim("unknown"),
                new TestCandidate(new TestNode("b")).unknownVictim("unknown"))));
  }

  @Test
  void bindsAreBoundDeclinedOrFail() {
    assertEquals(Bind.bound(), Testing.bind(POLICY, pod(), "n"));
    assertEquals(
        Bind.declined("namespace system is bound elsewhere"),
        Testing.bind(POLICY, new TestPod("system"), "n"));
    NoAnswerException failure =
        assertThrows(NoAnswerException.class, () -> Testing.bind(POLICY, pod(), "broken"));
    assertEquals("node broken refuses pods", failure.getMessage());
  }

  @Test
  void wrongArgsAreNamed() {
    NoAnswerException most =
        assertThrows(
            NoAnswerException.class,
            () -> Testing.withArgs(CONFIGURED, "{\"zone\":\"z1\",\"most\":1001}"));
    assertEquals("args: most is 1001; expected 1 to 1000", most.getMessage());
  }

  @Test
  void theDeclarationIsComplete() {
    Random random = new Random(7);
    Backend everything = Testing.everything(new Reference(new Reference.Args("z1", 2)));
    for (int round = 0; round < 200; round++) {
      TestPod pod = pod();
      if (random.nextBoolean()) {
        pod.toleration("t", "Exists", "", "").label("other", "x");
      }
      List<TestNode> nodes = new ArrayList<>();
      for (int at = 0; at < 4; at++) {
        TestNode node = new TestNode("n" + at).label("zone", "z" + random.nextInt(3));
        node.label("other", "x").allocatable(random.nextInt(2000), 1);
        if (random.nextBoolean()) {
          node.taint("t", "", "NoSchedule");
        }
        nodes.add(node.running(pod(), random.nextInt(4)));
      }
      assertEquals(Testing.filter(everything, pod, nodes), Testing.filter(POLICY, pod, nodes));
      assertEquals(Testing.score(everything, pod, nodes), Testing.score(POLICY, pod, nodes));
    }
  }
}
