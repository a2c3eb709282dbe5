package io.extendergateway.policy;

import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_FILTER;
import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_FILTER_NODES;
import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_SCORE;
import static io.extendergateway.policy.v1beta1.Verb.VERB_FILTER;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.v1beta1.ChangeRequest;
import io.extendergateway.policy.v1beta1.ChangeResponse;
import io.extendergateway.policy.v1beta1.Effects;
import io.extendergateway.policy.v1beta1.GetInfoResponse;
import io.extendergateway.policy.v1beta1.HookServiceGrpc;
import io.extendergateway.policy.v1beta1.NodeAffinity;
import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.NonZero;
import io.extendergateway.policy.v1beta1.PodAffinity;
import io.extendergateway.policy.v1beta1.PodAffinityTerm;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Scope;
import io.extendergateway.policy.v1beta1.Taint;
import io.extendergateway.policy.v1beta1.Toleration;
import io.extendergateway.policy.v1beta1.TopologySpread;
import io.extendergateway.policy.v1beta1.TopologySpreadConstraint;
import io.extendergateway.policy.v1beta1.VerbInfo;
import io.grpc.Status;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Hooks over a socket: changes, failures, and mistakes of the declaration. */
class HookTest {
  private static final ChangedPart[] OF_POD = {
    ChangedPart.POD_LABELS,
    ChangedPart.POD_ANNOTATIONS,
    ChangedPart.POD_AFFINITY,
    ChangedPart.POD_TOPOLOGY_SPREAD,
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

  private static final Reads NAMES = new Reads().node(NodePart.NAME);

  /** Changes what it is told to change. */
  private static final class Changing implements Policy {
    volatile PodChange pod = PodChange.none();
    volatile Function<String, NodeChange> node = name -> NodeChange.none();
    volatile int more;

    @Override
    public Info info() {
      return Info.of("changing", "1")
          .revision("r1")
          .beforeFilter(Hook.changes(OF_POD))
          .beforeFilterNodes(Hook.changes(OF_NODES).reads(NAMES))
          .beforeScore(Hook.changes(ChangedPart.POD_LABELS, ChangedPart.NODE_LABELS).reads(NAMES));
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

  private static ChangeRequest.Builder aboutPod() {
    return ChangeRequest.newBuilder()
        .setCall(Served.call())
        .setPod(Served.pod())
        .setHook(VERB_BEFORE_FILTER);
  }

  private static ChangeRequest.Builder about(
      io.extendergateway.policy.v1beta1.Verb hook, String... names) {
    return aboutPod()
        .setCall(Served.call(NAMES))
        .setNodes(Served.about(names).getNodes())
        .setHook(hook);
  }

  private static ChangeRequest.Builder aboutNodes(String... names) {
    return about(VERB_BEFORE_FILTER_NODES, names);
  }

  private static ChangeRequest.Builder aboutScores(String... names) {
    return about(VERB_BEFORE_SCORE, names);
  }

  private ChangeResponse change(ChangeRequest.Builder request) {
    return client(served).change(request.build());
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
    Hook whole = Hook.changes(ChangedPart.NODE_TAINTS, ChangedPart.NODE_TAINTS).wholeSet();
    GetInfoResponse info =
        new Declaration(
                Info.of("p", "1")
                    .beforeFilter(Hook.changes(ChangedPart.POD_LABELS).pure().reads(ofPod))
                    .beforeFilterNodes(whole.reads(NAMES))
                    .beforeScore(Hook.changes(ChangedPart.NODE_USAGE)))
            .response;
    VerbInfo filter = info.getVerbs(0);
    assertEquals(Effects.EFFECTS_PURE, filter.getEffects());
    assertEquals(List.of("app"), List.copyOf(filter.getReads().getPod().getLabels().getKeysList()));
    assertFalse(filter.getReads().hasNode());
    VerbInfo nodes = info.getVerbs(1);
    assertEquals(Scope.SCOPE_WHOLE_SET, nodes.getScope());
    assertEquals(List.of(NodePart.NAME.number()), nodes.getReads().getNode().getPartsValueList());
    assertEquals(1, nodes.getChangesCount());
    assertEquals(Effects.EFFECTS_READS_OUTSIDE, nodes.getEffects());
    assertTrue(info.getVerbs(2).hasReads());
    assertEquals(0, info.getVerbs(2).getReads().getSerializedSize());
    // Hooks whose nodes are names need no table, and the one about the pod has no nodes.
    assertEquals(
        List.of("extender.policy.v1beta1.HookService", "extender.policy.v1beta1.WatchService"),
        List.copyOf(info.getServicesList()));
  }

  @Test
  void thePodChanges() {
    ChangeResponse response = change(aboutPod());
    assertEquals(1, response.getResult().getEvaluated());
    assertEquals("r1", response.getResult().getRevision());
    assertFalse(response.hasPod());
    // A reason alone changes nothing.
    policy.pod = PodChange.none().reason("none");
    assertFalse(change(aboutPod()).hasPod());

    Toleration toleration = Toleration.newBuilder().setOperator("Exists").build();
    NodeAffinity affinity =
        NodeAffinity.newBuilder()
            .setRequired(io.extendergateway.policy.v1beta1.NodeSelector.getDefaultInstance())
            .build();
    var pods =
        PodAffinity.newBuilder()
            .addAntiRequired(PodAffinityTerm.newBuilder().setTopologyKey("zone"))
            .build();
    var zones = TopologySpreadConstraint.newBuilder().setTopologyKey("zone").build();
    policy.pod =
        PodChange.none()
            .setLabel("a", "1")
            .removeLabel("b")
            .setAnnotation("e", "3")
            .removeAnnotation("f")
            .podAffinity(pods)
            .topologySpread(TopologySpreadConstraint.getDefaultInstance())
            .topologySpread(zones, zones)
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
            .putSetAnnotations("e", "3")
            .addRemoveAnnotations("f")
            .setPodAffinity(pods)
            .setTopologySpread(
                TopologySpread.newBuilder().addConstraints(zones).addConstraints(zones))
            .putSetNodeSelector("c", "2")
            .addRemoveNodeSelector("d")
            .setNodeAffinity(affinity)
            .addAddTolerations(toleration)
            .addRemoveTolerations(toleration)
            .setAddRequests(milliCpu(-300))
            .setReason("ä".repeat(100))
            .build();
    assertEquals(expected, change(aboutPod()).getPod());

    policy.pod = PodChange.none().setNodeAffinity(affinity).removeNodeAffinity();
    var removed = change(aboutPod()).getPod();
    assertTrue(removed.getRemoveNodeAffinity());
    assertFalse(removed.hasNodeAffinity());

    for (PodChange alone :
        List.of(
            PodChange.none().setAnnotation("a", "1"),
            PodChange.none().removeAnnotation("a"),
            PodChange.none().podAffinity(PodAffinity.getDefaultInstance()),
            PodChange.none().topologySpread())) {
      policy.pod = alone;
      assertTrue(change(aboutPod()).hasPod(), alone.toString());
    }
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
    ChangeResponse response = change(aboutNodes("a", "full", "new", "full", "reason"));
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
    ChangeResponse response = change(aboutScores("a", "b"));
    assertEquals(2, response.getResult().getEvaluated());
    assertEquals("1", response.getPod().getSetLabelsOrThrow("a"));
    assertEquals(1, response.getNodesCount());
    assertEquals(List.of(1), response.getNodes(0).getPositionsList());
    policy.pod = PodChange.none();
    response = change(aboutScores("a"));
    assertFalse(response.hasPod());
    assertEquals(0, response.getNodesCount());
  }

  @Test
  void theHookOfARequestIsAnswered() throws ServeException {
    policy.pod = PodChange.none().setLabel("a", "1");
    policy.node = name -> NodeChange.none().setLabel("c", "2");
    for (ChangeRequest.Builder request : List.of(aboutPod(), aboutNodes("a"), aboutScores("a"))) {
      ChangeResponse response = change(request);
      assertEquals(request.getHook() != VERB_BEFORE_FILTER_NODES, response.hasPod());
      assertEquals(request.hasNodes() ? 1 : 0, response.getNodesCount());
    }
    policy.pod = null;
    policy.node =
        name -> {
          throw new IllegalStateException();
        };
    refused(
        () -> change(aboutNodes("a")),
        Status.Code.INTERNAL,
        "beforeFilterNodes failed (IllegalStateException)");
  }

  @Test
  void aHookThatIsNotDeclaredIsNotServed() throws ServeException {
    Info info = Info.of("p", "1");
    Info hook = info.beforeFilter(Hook.changes(ChangedPart.POD_LABELS));
    try (Served only = Served.of(new Declaring(hook));
        Served none = Served.of(new Declaring(info.filters(Verb.perNode())))) {
      assertEquals(1, client(only).change(aboutPod().build()).getResult().getEvaluated());
      // Also if something else is wrong with the request.
      refused(
          () -> client(only).change(aboutNodes().clearCall().build()),
          Status.Code.UNIMPLEMENTED,
          "this policy does not serve BeforeFilterNodes");
      refused(
          () -> client(none).change(aboutPod().build()),
          Status.Code.UNIMPLEMENTED,
          "this policy does not serve BeforeFilter;");
      for (Served one : List.of(only, none)) {
        for (int unknown : new int[] {0, 77, VERB_FILTER.getNumber()}) {
          refused(
              () -> client(one).change(aboutPod().setHookValue(unknown).build()),
              Status.Code.INVALID_ARGUMENT,
              "hook is missing or unknown");
        }
      }
    }
  }

  @Test
  void requestsThatDoNotFitTheirHookAreRefused() {
    Status.Code invalid = Status.Code.INVALID_ARGUMENT;
    refused(() -> change(aboutPod().clearHook()), invalid, "hook is missing or unknown");
    refused(() -> change(aboutPod().setHookValue(77)), invalid, "hook is missing or unknown");
    refused(() -> change(aboutPod().setHook(VERB_FILTER)), invalid, "hook is missing or unknown");
    refused(
        () -> change(aboutPod().setNodes(Served.about("a").getNodes())),
        invalid,
        "nodes are given; VERB_BEFORE_FILTER is about the pod alone");
    for (var request : List.of(aboutNodes("a"), aboutScores("a"))) {
      refused(() -> change(request.clearNodes()), invalid, "nodes is missing");
    }
  }

  @Test
  void failuresOfThePolicyEndOneCallAndAreInTheLog() {
    Status.Code internal = Status.Code.INTERNAL;
    LogLines log = new LogLines();
    try (log) {
      policy.more = 1;
      refused(
          () -> change(aboutNodes("a")),
          internal,
          "beforeFilterNodes returned 2 answers for 1 nodes");
      refused(
          () -> change(aboutScores("a")), internal, "beforeScore returned 2 answers for 1 nodes");
      policy.more = 0;
      policy.node = name -> null;
      refused(() -> change(aboutNodes("a")), internal, "a change of a node is null");
      policy.pod = null;
      refused(() -> change(aboutPod()), internal, "a change of the pod is null");
    }
    String all = String.join("\n", log.lines);
    for (String text :
        List.of(
            "beforeScore returned 2 answers for 1 nodes",
            "a change of a node is null",
            "a change of the pod is null")) {
      assertTrue(all.contains(text), text + " in " + all);
    }
    policy.pod = PodChange.none();
    assertEquals(1, change(aboutPod()).getResult().getEvaluated());
  }
}
