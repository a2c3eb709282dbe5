package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.extendergateway.policy.Backend;
import io.extendergateway.policy.Bind;
import io.extendergateway.policy.Changes;
import io.extendergateway.policy.NodeChange;
import io.extendergateway.policy.PodChange;
import io.extendergateway.policy.Rehearsal.NoAnswerException;
import io.extendergateway.policy.testing.TestCandidate;
import io.extendergateway.policy.testing.TestNode;
import io.extendergateway.policy.testing.TestPod;
import io.extendergateway.policy.testing.Testing;
import io.extendergateway.policy.testing.Testing.Kept;
import io.extendergateway.policy.testing.Testing.Rejected;
import io.extendergateway.policy.v1alpha1.NodeUsage;
import io.extendergateway.policy.v1alpha1.Resources;
import io.extendergateway.policy.v1alpha1.Taint;
import io.extendergateway.policy.v1alpha1.Toleration;
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
  void podsOfAnAppNeedMore() {
    assertEquals(PodChange.none(), Testing.beforeFilter(POLICY, new TestPod("shop")));
    assertEquals(
        PodChange.none().removeLabel("app").reason("the zone is no app"),
        Testing.beforeFilter(POLICY, new TestPod("shop").label("app", "z1")));
    assertEquals(
        PodChange.none()
            .addRequests(Resources.newBuilder().setMilliCpu(500).build())
            .setNodeSelector("zone", "z1")
            .addToleration(Toleration.newBuilder().setKey("app").setOperator("Exists").build())
            .reason("apps need more"),
        Testing.beforeFilter(POLICY, pod()));
  }

  /** Without a zone, in the zone of the app, in the closed zone, in another one. */
  private static List<TestNode> zones() {
    return List.of(
        new TestNode("none"),
        new TestNode("app").label("zone", "z2"),
        new TestNode("closed").label("zone", "z1"),
        new TestNode("other").label("zone", "z3"));
  }

  @Test
  void nodesOfTheAppHaveMore() {
    NodeChange zoneless =
        NodeChange.none()
            .addTaint(Taint.newBuilder().setKey("zone").setEffect("PreferNoSchedule").build())
            .removeTaint(Taint.newBuilder().setKey("zoneless").build());
    NodeChange reserved =
        NodeChange.none()
            .addAllocatable(
                Resources.newBuilder().setMilliCpu(1000).putOthers("example.com/slots", 1).build())
            .reason("reserved for the app");
    NodeChange none = NodeChange.none();
    assertEquals(
        List.of(zoneless, reserved, none, none), Testing.beforeFilterNodes(POLICY, pod(), zones()));
    assertEquals(
        List.of(zoneless, none, none, none),
        Testing.beforeFilterNodes(POLICY, new TestPod("shop"), zones()));
  }

  @Test
  void theClosedZoneIsEmptyWhenNodesAreScored() {
    NodeChange none = NodeChange.none();
    NodeUsage less =
        NodeUsage.newBuilder()
            .setRequested(Resources.newBuilder().setMilliCpu(-100).setPods(-1))
            .build();
    List<NodeChange> nodes =
        List.of(
            none.removeLabel("zone"),
            none,
            none.setLabel("zone", "closed").addUsage(less).reason("closed"),
            none);
    assertEquals(
        new Changes(PodChange.none().setLabel("app", "z1"), nodes),
        Testing.beforeScore(POLICY, pod(), zones()));
    assertEquals(
        new Changes(PodChange.none(), nodes),
        Testing.beforeScore(POLICY, new TestPod("shop"), zones()));
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
      assertEquals(Testing.beforeFilter(everything, pod), Testing.beforeFilter(POLICY, pod));
      assertEquals(
          Testing.beforeFilterNodes(everything, pod, nodes),
          Testing.beforeFilterNodes(POLICY, pod, nodes));
      assertEquals(
          Testing.beforeScore(everything, pod, nodes), Testing.beforeScore(POLICY, pod, nodes));
    }
  }
}
