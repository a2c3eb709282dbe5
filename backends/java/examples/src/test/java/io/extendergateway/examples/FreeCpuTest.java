package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.extendergateway.policy.*;
import io.extendergateway.policy.testing.*;
import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.Resources;
import java.util.List;
import org.junit.jupiter.api.Test;

class FreeCpuTest {
  private static final class FreeCpu implements Policy {
    private final Reads reads = new Reads().node(NodePart.ALLOCATABLE, NodePart.USAGE);

    @Override
    public Info info() {
      Verb verb = Verb.perNode().pure().reads(reads);
      return Info.of("free-cpu", "1.0.0").scores(verb, Scale.between(0, 10));
    }

    @Override
    public int score(Pod pod, Node node) {
      if (node.allocatable().isEmpty() || node.usage().isEmpty()) {
        return NO_OPINION;
      }
      double all = node.allocatable().get().getMilliCpu();
      double free = all - node.usage().get().getRequested().getMilliCpu();
      return (int) Math.max(0, Math.min(10, 10 * free / Math.max(1, all)));
    }
  }

  private static TestNode node(long all, long requested) {
    var amounts = Resources.newBuilder().setMilliCpu(requested);
    return new TestNode("a")
        .allocatable(all, 0)
        .usage(NodeUsage.newBuilder().setRequested(amounts).build());
  }

  @Test
  void theFreerNodeIsBetter() {
    long most = Long.MAX_VALUE;
    var unknown = new TestNode("a").allocatable(4000, 0);
    var nodes = List.of(node(4000, 1000), unknown, node(most, -most), node(most, most), node(0, 1));
    var scores = Testing.score(new FreeCpu(), new TestPod("shop"), nodes);
    assertEquals(List.of(7, Policy.NO_OPINION, 10, 0, 0), scores);
  }
}
