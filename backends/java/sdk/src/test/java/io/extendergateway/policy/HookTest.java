package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.v1beta1.BeforeFilterNodesRequest;
import io.extendergateway.policy.v1beta1.BeforeFilterNodesResponse;
import io.extendergateway.policy.v1beta1.BeforeFilterRequest;
import io.extendergateway.policy.v1beta1.BeforeFilterResponse;
import io.extendergateway.policy.v1beta1.BeforeScoreRequest;
import io.extendergateway.policy.v1beta1.BeforeScoreResponse;
import io.extendergateway.policy.v1beta1.GetInfoResponse;
import io.extendergateway.policy.v1beta1.HookServiceGrpc;
import io.extendergateway.policy.v1beta1.NodeAffinity;
import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.NodeView;
import io.extendergateway.policy.v1beta1.NonZero;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Scope;
import io.extendergateway.policy.v1beta1.Taint;
import io.extendergateway.policy.v1beta1.Toleration;
import io.extendergateway.policy.v1beta1.VerbInfo;
import io.grpc.Status;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Function;
import java.util.logging.Filter;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Hooks over a socket: changes, failures, and mistakes of the declaration. */
class HookTest {
  private static final ChangedPart[] OF_POD = {
    ChangedPart.POD_LABELS,
    ChangedPart.POD_NODE_SELECTOR,
    ChangedPart.POD_NODE_AFFINITY,
    ChangedPart.POD_TOLERATIONS,
    ChangedPart.POD_REQUESTS
  };
  private static final ChangedPart[] OF_NODES = {
    ChangedPart.NODE_LABELS,
    ChangedPart.NODE_TAINTS,
    ChangedPart.NODE_ALLOCATABLE,
    ChangedPart.NODE_USAGE
  };

  /** Changes what it is told to change. */
  private static final class Changing implements Policy {
    volatile PodChange pod = PodChange.none();
    volatile Function<String, NodeChange> node = name -> NodeChange.none();
    volatile int more;

    @Override
    public Info info() {
      return Info.of("changing", "1")
          .revision("r1")
          .beforeFilter(Hook.changing(OF_POD))
          .beforeFilterNodes(Hook.changing(OF_NODES))
          .beforeScore(Hook.changing(ChangedPart.POD_LABELS, ChangedPart.NODE_LABELS));
    }

    @Override
    public PodChange beforeFilter(Pod given) {
      return pod;
    }

    @Override
    public NodeChange beforeFilterNode(Pod given, Node one) {
      return node.apply(one.name());
    }

    @Override
    public List<NodeChange> beforeFilterNodes(Pod given, List<Node> nodes) {
      List<NodeChange> changes = Policy.super.beforeFilterNodes(given, nodes);
      changes.addAll(Collections.nCopies(more, NodeChange.none()));
      return changes;
    }

    @Override
    public PodChange beforeScorePod(Pod given) {
      return pod;
    }

    @Override
    public NodeChange beforeScoreNode(Pod given, Node one) {
      return node.apply(one.name());
    }

    @Override
    public Changes beforeScore(Pod given, List<Node> nodes) {
      Changes changes = Policy.super.beforeScore(given, nodes);
      changes.nodes().addAll(Collections.nCopies(more, NodeChange.none()));
      return changes;
    }
  }

  private final Changing policy = new Changing();
  private Served served;

  @BeforeEach
  void serve() throws ServeException {
    served = Served.of(policy);
  }

  @AfterEach
  void stop() {
    served.close();
  }

  private static HookServiceGrpc.HookServiceBlockingStub client(Served from) {
    return HookServiceGrpc.newBlockingStub(from.channel);
  }

  private static BeforeFilterRequest.Builder aboutPod() {
    return BeforeFilterRequest.newBuilder().setCall(Served.call()).setPod(Served.pod());
  }

  private static BeforeFilterNodesRequest.Builder aboutNodes(String... names) {
    var about = Served.about(names);
    return BeforeFilterNodesRequest.newBuilder()
        .setCall(about.getCall())
        .setPod(about.getPod())
        .setNodes(about.getNodes());
  }

  private static BeforeScoreRequest.Builder aboutScores(String... names) {
    var about = Served.about(names);
    return BeforeScoreRequest.newBuilder()
        .setCall(about.getCall())
        .setPod(about.getPod())
        .setNodes(about.getNodes());
  }

  private BeforeFilterResponse beforeFilter(BeforeFilterRequest.Builder request) {
    return client(served).beforeFilter(request.build());
  }

  private BeforeFilterNodesResponse beforeFilterNodes(BeforeFilterNodesRequest.Builder request) {
    return client(served).beforeFilterNodes(request.build());
  }

  private BeforeScoreResponse beforeScore(BeforeScoreRequest.Builder request) {
    return client(served).beforeScore(request.build());
  }

  private static void refused(Executable call, Status.Code code, String text) {
    Status status = Served.failure(call);
    assertEquals(code, status.getCode(), status.toString());
    assertTrue(status.getDescription().contains(text), status.toString());
  }

  private static Taint taint(String key, String value, String effect) {
    return Taint.newBuilder().setKey(key).setValue(value).setEffect(effect).build();
  }

  private static Resources milliCpu(long amount) {
    return Resources.newBuilder().setMilliCpu(amount).build();
  }

  @Test
  void aHookIsDeclaredAsAVerbIs() {
    Reads ofPod = new Reads();
    ofPod.podLabel("app");
    Hook whole = Hook.changing(ChangedPart.NODE_TAINTS, ChangedPart.NODE_TAINTS).wholeSet();
    GetInfoResponse info =
        new Declaration(
                Info.of("p", "1")
                    .beforeFilter(Hook.changing(ChangedPart.POD_LABELS).pure().reads(ofPod))
                    .beforeFilterNodes(whole.usage())
                    .beforeScore(
                        Hook.changing(ChangedPart.NODE_USAGE).view(View.NAME).reads(new Reads())))
            .response;
    VerbInfo filter = info.getVerbs(0);
    assertTrue(filter.getPure());
    assertEquals(NodeView.NODE_VIEW_UNSPECIFIED, filter.getNodeView());
    assertEquals(List.of("app"), List.copyOf(filter.getReads().getPod().getLabels().getKeysList()));
    assertFalse(filter.getReads().hasNode());
    VerbInfo nodes = info.getVerbs(1);
    assertEquals(Scope.SCOPE_WHOLE_SET, nodes.getScope());
    assertTrue(nodes.getUsage());
    assertEquals(1, nodes.getChangesCount());
    assertFalse(nodes.getSideEffects());
    assertEquals(NodeView.NODE_VIEW_NAME, info.getVerbs(2).getNodeView());
    // Hooks whose nodes are names need no table, and the one about the pod has no nodes.
    info =
        new Declaration(Info.of("p", "1").beforeFilter(Hook.changing(ChangedPart.POD_LABELS)))
            .response;
    assertEquals(
        List.of("extender.policy.v1beta1.HookService"), List.copyOf(info.getServicesList()));
  }

  @Test
  void thePodChanges() {
    BeforeFilterResponse response = beforeFilter(aboutPod());
    assertEquals(1, response.getResult().getEvaluated());
    assertEquals("r1", response.getResult().getRevision());
    assertFalse(response.hasPod());
    // A reason alone changes nothing.
    policy.pod = PodChange.none().reason("none");
    assertFalse(beforeFilter(aboutPod()).hasPod());

    Toleration toleration = Toleration.newBuilder().setOperator("Exists").build();
    NodeAffinity affinity =
        NodeAffinity.newBuilder()
            .setRequired(io.extendergateway.policy.v1beta1.NodeSelector.getDefaultInstance())
            .build();
    policy.pod =
        PodChange.none()
            .setLabel("a", "1")
            .removeLabel("b")
            .setNodeSelector("c", "2")
            .removeNodeSelector("d")
            .removeNodeAffinity()
            .setNodeAffinity(affinity)
            .addToleration(toleration)
            .removeToleration(toleration)
            .addRequests(milliCpu(-500))
            .addRequests(milliCpu(200))
            .reason("ä".repeat(101));
    var expected =
        io.extendergateway.policy.v1beta1.PodChange.newBuilder()
            .putSetLabels("a", "1")
            .addRemoveLabels("b")
            .putSetNodeSelector("c", "2")
            .addRemoveNodeSelector("d")
            .setNodeAffinity(affinity)
            .addAddTolerations(toleration)
            .addRemoveTolerations(toleration)
            .setAddRequests(milliCpu(-300))
            .setReason("ä".repeat(100))
            .build();
    assertEquals(expected, beforeFilter(aboutPod()).getPod());

    policy.pod = PodChange.none().setNodeAffinity(affinity).removeNodeAffinity();
    var removed = beforeFilter(aboutPod()).getPod();
    assertTrue(removed.getRemoveNodeAffinity());
    assertFalse(removed.hasNodeAffinity());
  }

  @Test
  void nodesThatChangeAlikeAreSentTogether() {
    NodeUsage usage =
        NodeUsage.newBuilder()
            .setRequested(milliCpu(-100).toBuilder().putOthers("example.com/gpu", 1))
            .setNonzero(NonZero.newBuilder().setMemory(5))
            .build();
    policy.node =
        name ->
            switch (name) {
              // Made anew for each node.
              case "full" ->
                  NodeChange.none()
                      .addAllocatable(milliCpu(-1))
                      .addUsage(usage)
                      .addUsage(usage)
                      .reason("ä".repeat(101));
              case "new" ->
                  NodeChange.none()
                      .setLabel("a", "1")
                      .removeLabel("b")
                      .addTaint(taint("c", "", "NoSchedule"))
                      .removeTaint(taint("d", "", ""));
              case "reason" -> NodeChange.none().reason("none");
              default -> NodeChange.none();
            };
    BeforeFilterNodesResponse response =
        beforeFilterNodes(aboutNodes("a", "full", "new", "full", "reason"));
    assertEquals(5, response.getResult().getEvaluated());
    assertEquals("r1", response.getResult().getRevision());
    var full =
        io.extendergateway.policy.v1beta1.NodeChange.newBuilder()
            .addAllPositions(List.of(1, 3))
            .setAddAllocatable(milliCpu(-1))
            .setReason("ä".repeat(100));
    full.getAddUsageBuilder()
        .setRequested(milliCpu(-200).toBuilder().putOthers("example.com/gpu", 2))
        .setNonzero(NonZero.newBuilder().setMemory(10));
    var added =
        io.extendergateway.policy.v1beta1.NodeChange.newBuilder()
            .addPositions(2)
            .putSetLabels("a", "1")
            .addRemoveLabels("b")
            .addAddTaints(taint("c", "", "NoSchedule"))
            .addRemoveTaints(taint("d", "", ""));
    assertEquals(List.of(full.build(), added.build()), List.copyOf(response.getNodesList()));
  }

  @Test
  void thePodAndNodesChangeBeforeTheyAreScored() {
    policy.pod = PodChange.none().setLabel("a", "1");
    policy.node =
        name -> name.equals("b") ? NodeChange.none().setLabel("c", "2") : NodeChange.none();
    BeforeScoreResponse response = beforeScore(aboutScores("a", "b"));
    assertEquals(2, response.getResult().getEvaluated());
    assertEquals("1", response.getPod().getSetLabelsOrThrow("a"));
    assertEquals(1, response.getNodesCount());
    assertEquals(List.of(1), response.getNodes(0).getPositionsList());
    policy.pod = PodChange.none();
    response = beforeScore(aboutScores("a"));
    assertFalse(response.hasPod());
    assertEquals(0, response.getNodesCount());
  }

  @Test
  void failuresOfThePolicyEndOneCallAndAreInTheLog() {
    Logger logger = Logger.getLogger("io.extendergateway.policy");
    Queue<String> log = new ConcurrentLinkedQueue<>();
    Filter before = logger.getFilter();
    logger.setFilter(
        record -> {
          log.add("%s %s".formatted(record.getMessage(), record.getThrown()));
          return before == null || before.isLoggable(record);
        });
    Status.Code internal = Status.Code.INTERNAL;
    try {
      policy.more = 1;
      refused(
          () -> beforeFilterNodes(aboutNodes("a")),
          internal,
          "beforeFilterNodes returned 2 answers for 1 nodes");
      refused(
          () -> beforeScore(aboutScores("a")),
          internal,
          "beforeScore returned 2 answers for 1 nodes");
      policy.more = 0;
      policy.node = name -> null;
      refused(() -> beforeFilterNodes(aboutNodes("a")), internal, "a change of a node is null");
      policy.pod = null;
      refused(() -> beforeFilter(aboutPod()), internal, "a change of the pod is null");
    } finally {
      logger.setFilter(before);
    }
    String all = String.join("\n", log);
    for (String text :
        List.of(
            "beforeScore returned 2 answers for 1 nodes",
            "a change of a node is null",
            "a change of the pod is null")) {
      assertTrue(all.contains(text), text + " in " + all);
    }
    policy.pod = PodChange.none();
    assertEquals(1, beforeFilter(aboutPod()).getResult().getEvaluated());
  }
}
