package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.extendergateway.policy.Backend;
import io.extendergateway.policy.Bind;
import io.extendergateway.policy.testing.NoAnswerException;
import io.extendergateway.policy.testing.TestNode;
import io.extendergateway.policy.testing.TestPod;
import io.extendergateway.policy.testing.Testing;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The other answers are compared with those of the other languages. */
class ReferenceTest {
  private static final Backend CONFIGURED =
      Backend.configured(Reference.Args.class, Reference::new);
  private static final Backend POLICY =
      Testing.withArgs(CONFIGURED, "{\"zone\":\"z1\",\"most\":2}");

  private static TestPod pod() {
    return new TestPod("shop").label("app", "z2").owner("web").requests(1000, 0);
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
