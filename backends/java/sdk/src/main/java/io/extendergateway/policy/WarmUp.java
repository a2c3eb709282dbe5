package io.extendergateway.policy;

import com.google.protobuf.Message;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.FilterRequest;
import io.extendergateway.policy.v1beta1.MapValues;
import io.extendergateway.policy.v1beta1.NodeRef;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.NodeRows;
import io.extendergateway.policy.v1beta1.Nodes;
import io.extendergateway.policy.v1beta1.PodCounts;
import io.extendergateway.policy.v1beta1.PodFacts;
import io.extendergateway.policy.v1beta1.Purpose;
import io.extendergateway.policy.v1beta1.SyncNodesRequest;
import io.extendergateway.policy.v1beta1.TableEntry;
import io.extendergateway.policy.v1beta1.Taint;
import java.util.List;

/**
 * Answers some calls before a program says that it is ready: the first ones load some hundred
 * classes and run interpreted, and would be late for a gateway that waits 200 ms. The policy of the
 * program is not called.
 */
final class WarmUp {
  private static final int ROUNDS = 10;
  private static final int NODES = 50;
  private static final String TABLE = "warm-up";

  private WarmUp() {}

  /** Reads what most policies read. */
  private static final class Typical implements Policy {
    private final Reads reads =
        new Reads()
            .node(NodePart.NAME, NodePart.TAINTS, NodePart.ALLOCATABLE)
            .pod(PodPart.REQUESTS, PodPart.TOLERATIONS);
    private final NodeKey label = reads.nodeLabel("a");
    private final PodsKey namespace = reads.podsBy(PodsBy.namespace());

    @Override
    public Info info() {
      Verb perNode = Verb.perNode().reads(reads);
      return Info.of("warm-up", "1").filters(perNode).scores(perNode, Scale.unbounded());
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      boolean tolerated = node.taints().stream().allMatch(pod::tolerates);
      boolean few = node.podsLike(namespace, pod).map(PodsLike::atMost).orElse(0L) < 1;
      return tolerated && few && node.get(label).isEmpty()
          ? Verdict.accept()
          : Verdict.reject("warm-up");
    }

    @Override
    public int score(Pod pod, Node node) {
      return node.name().length() + node.allocatable().map(amounts -> 1).orElse(0);
    }
  }

  static void run() {
    Typical policy = new Typical();
    Backend backend = Backend.of(policy);
    Layout layout = new Layout(policy.reads);
    Tables tables = new Tables();
    Filling filling = new Filling(tables);
    Questions questions = new Questions(backend, tables);
    Answer answer = new Answer(backend, questions, Runnable::run);
    try {
      filling.apply(rows(layout).toByteArray());
      for (int round = 0; round < ROUNDS; round++) {
        for (boolean byTable : new boolean[] {false, true}) {
          byte[] message = request(layout, byTable, round).toByteArray();
          questions.admit(List.of(Kind.FILTER), message);
          Asked request = Asked.decode(message, Kind.FILTER.shape, Kind.FILTER.request);
          byte[] unused = ((Message) answer.answer(Kind.FILTER, request, Trace.NONE)).toByteArray();
        }
      }
    } catch (Exception failure) {
      Failures.LOG.log(System.Logger.Level.DEBUG, "the warm-up failed", failure);
    } finally {
      filling.end();
    }
  }

  /** Rows of another round are not known. */
  private static FilterRequest request(Layout layout, boolean byTable, int round) {
    NodeRows.Builder rows = NodeRows.newBuilder();
    NodeRef.Builder ref = NodeRef.newBuilder().setTable(TABLE).setAtLeast(1);
    for (int number = 1; number <= NODES; number++) {
      rows.addRows(row(number, round));
      ref.addIds(number);
    }
    Nodes.Builder nodes = Nodes.newBuilder().setCount(NODES);
    return FilterRequest.newBuilder()
        .setCall(Call.newBuilder().setPurpose(Purpose.PURPOSE_DECIDE).setReads(layout.sha256))
        .setPod(
            io.extendergateway.policy.v1beta1.Pod.newBuilder()
                .setFacts(PodFacts.newBuilder().setNamespace("warm-up")))
        .setNodes(byTable ? nodes.setTable(ref) : nodes.setRows(rows))
        .setWantScores(true)
        .build();
  }

  private static SyncNodesRequest rows(Layout layout) {
    SyncNodesRequest.Builder message =
        SyncNodesRequest.newBuilder().setTable(TABLE).setVersion(1).setReads(layout.rows);
    for (int number = 1; number <= NODES; number++) {
      message.addUpserts(TableEntry.newBuilder().setId(number).setRow(row(number, 0)));
    }
    return message.build();
  }

  private static NodeRow row(int number, int round) {
    NodeRow.Builder row = NodeRow.newBuilder().setName("node-" + number);
    row.getFactsBuilder()
        .setLabels(MapValues.newBuilder().addValues("").addAbsent(0))
        .addTaints(Taint.newBuilder().setKey("a").setEffect("NoSchedule"))
        .getAllocatableBuilder()
        .setMilliCpu(number + round)
        .putOthers("example.com/gpu", 1);
    PodCounts.Builder counts = PodCounts.newBuilder();
    counts.addCountsBuilder().setValue("warm-up").setPods(number);
    return row.addPodCounts(counts).build();
  }
}
