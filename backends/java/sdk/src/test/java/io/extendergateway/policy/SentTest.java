package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.Rehearsal.InCluster;
import io.extendergateway.policy.v1beta1.MapValues;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.NodeUsage;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What tests of policies send: the same as a gateway. */
class SentTest {
  private static final ByteString JSON = ByteString.copyFromUtf8("{}");

  private static io.extendergateway.policy.v1beta1.Pod pod(Reads reads) {
    var pod = Served.pod().toBuilder().setRawJson(JSON);
    pod.getFactsBuilder().getLabelsBuilder().putEntries("app", "web").putEntries("x/1", "");
    return Sent.pod(new Layout(reads).pod, pod.build(), List.of());
  }

  private static NodeRow row(Reads reads) {
    Info info = Info.of("p", "1").filters(Verb.perNode().reads(reads));
    NodeRow row =
        Served.row("n").toBuilder()
            .setRawJson(JSON)
            .setUsage(NodeUsage.getDefaultInstance())
            .setNominated(NodeUsage.getDefaultInstance())
            .build();
    return Sent.row(new Declaration(info).terms(Kind.FILTER), new InCluster(row, List.of()));
  }

  @Test
  void labelsAreSentByPositionOrWithTheirKeys() {
    Reads reads = new Reads();
    reads.podLabel("tier");
    reads.podLabel("app");
    reads.podLabels("x/");
    MapValues labels =
        MapValues.newBuilder()
            .addValues("web")
            .addValues("")
            .addAbsent(1)
            .putEntries("x/1", "")
            .build();
    assertEquals(labels, pod(reads).getFacts().getLabels());
    assertEquals(2, pod(Reads.everything()).getFacts().getLabels().getEntriesCount());
    assertFalse(pod(new Reads()).getFacts().hasLabels());
    assertFalse(row(Reads.everything()).getFacts().hasLabels());
    reads.nodeLabel("zone");
    assertTrue(row(reads).getFacts().hasLabels());
  }

  @Test
  void whatIsDeclaredIsThereAlsoIfItIs0() {
    Reads reads = new Reads().node(NodePart.UNSCHEDULABLE).pod(PodPart.PRIORITY);
    assertTrue(pod(reads).getFacts().hasPriority());
    assertTrue(row(reads).getFacts().hasUnschedulable());
    assertTrue(pod(Reads.everything()).getFacts().hasPriority());
    assertFalse(pod(new Reads()).getFacts().hasPriority());
    assertFalse(row(new Reads().node(NodePart.TAINTS)).getFacts().hasUnschedulable());
  }

  @Test
  void jsonAndUsageAreSentAsDeclared() {
    assertEquals(NodeRow.newBuilder().setName("n").build(), row(new Reads().node(NodePart.NAME)));
    NodeRow everything = row(Reads.everything());
    assertEquals("n", everything.getName());
    assertTrue(everything.hasFacts());
    assertFalse(everything.hasUsage() || everything.hasNominated());
    assertEquals(ByteString.EMPTY, everything.getRawJson());
    NodeRow rest = row(new Reads().node(NodePart.USAGE, NodePart.NOMINATED, NodePart.RAW_JSON));
    assertEquals("", rest.getName());
    assertTrue(rest.hasUsage() && rest.hasNominated() && rest.hasFacts());
    assertEquals(JSON, rest.getRawJson());
    assertEquals(ByteString.EMPTY, pod(Reads.everything()).getRawJson());
    assertEquals(JSON, pod(new Reads().pod(PodPart.RAW_JSON)).getRawJson());
  }
}
