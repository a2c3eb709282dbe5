package io.extendergateway.policy.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.Candidate;
import io.extendergateway.policy.ChangedPart;
import io.extendergateway.policy.Changes;
import io.extendergateway.policy.Domains;
import io.extendergateway.policy.Eviction;
import io.extendergateway.policy.Hook;
import io.extendergateway.policy.Info;
import io.extendergateway.policy.Node;
import io.extendergateway.policy.NodeChange;
import io.extendergateway.policy.NodeKey;
import io.extendergateway.policy.NodePart;
import io.extendergateway.policy.NodePrefix;
import io.extendergateway.policy.Pod;
import io.extendergateway.policy.PodChange;
import io.extendergateway.policy.PodKey;
import io.extendergateway.policy.PodPart;
import io.extendergateway.policy.PodsBy;
import io.extendergateway.policy.PodsKey;
import io.extendergateway.policy.Policy;
import io.extendergateway.policy.Reads;
import io.extendergateway.policy.TopologyKey;
import io.extendergateway.policy.Verb;
import io.extendergateway.policy.Verdict;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Taint;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;
import org.junit.jupiter.api.Test;

/** What policies see, and that they see no more than they declare. */
class TestingTest {
  /** Rejects each node with the text that the function makes of it. */
  private record Says(Reads reads, BiFunction<Pod, Node, Object> text) implements Policy {
    @Override
    public Info info() {
      return Info.of("says", "1").filters(Verb.perNode().reads(reads));
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return Verdict.reject(String.valueOf(text.apply(pod, node)));
    }
  }

  private static final TestPod POD =
      new TestPod("shop").label("app", "web").annotation("team", "a").owner("web-1");
  private static final TestNode NODE =
      new TestNode("n1")
          .label("rack", "")
          .label("x/1", "a")
          .label("x/2", "b")
          .annotation("note", "ok")
          .taint("gpu", "a100", "NoSchedule")
          .condition("Ready", "True")
          .allocatable(4000, 1 << 30);

  private static String said(Reads reads, BiFunction<Pod, Node, Object> text) {
    List<Testing.Rejected> rejected = Testing.filter(new Says(reads, text), POD, List.of(NODE));
    return rejected.get(0).reason();
  }

  private static void undeclared(String expected, BiFunction<Pod, Node, Object> text) {
    NoAnswerException failure =
        assertThrows(NoAnswerException.class, () -> said(new Reads(), text));
    assertEquals("filter failed: " + expected, failure.getMessage());
  }

  @Test
  void whatIsDeclaredIsReadByKeyAndByText() {
    Reads reads = new Reads().node(NodePart.NAME, NodePart.TAINTS, NodePart.CONDITIONS);
    NodeKey rack = reads.nodeLabel("rack");
    NodeKey zone = reads.nodeLabel("zone");
    NodePrefix prefix = reads.nodeLabels("x/");
    NodeKey covered = reads.nodeLabel("x/1");
    NodeKey note = reads.nodeAnnotation("note");
    PodKey app = reads.podLabel("app");
    PodKey team = reads.podAnnotation("team");
    assertEquals("Optional[]", said(reads, (pod, node) -> node.get(rack)));
    assertEquals("Optional[]", said(reads, (pod, node) -> node.label("rack")));
    assertEquals("Optional.empty", said(reads, (pod, node) -> node.get(zone)));
    assertEquals("Optional[a]", said(reads, (pod, node) -> node.get(covered)));
    assertEquals("{x/1=a, x/2=b}", said(reads, (pod, node) -> node.entries(prefix)));
    assertEquals("Optional[ok]", said(reads, (pod, node) -> node.get(note)));
    assertEquals("Optional[ok]", said(reads, (pod, node) -> node.annotation("note")));
    assertEquals("Optional[web]", said(reads, (pod, node) -> pod.get(app)));
    assertEquals("Optional[a]", said(reads, (pod, node) -> pod.get(team)));
    assertEquals("n1", said(reads, (pod, node) -> node.name()));
    assertEquals("gpu", said(reads, (pod, node) -> node.taints().get(0).getKey()));
    assertEquals("Optional[True]", said(reads, (pod, node) -> node.condition("Ready")));
  }

  @Test
  void theIdOfACallIsTest() {
    assertEquals("test", said(new Reads(), (pod, node) -> pod.callId()));
  }

  @Test
  void readingAnythingElseFailsAndNamesIt() {
    Reads other = new Reads();
    NodeKey rack = other.nodeLabel("rack");
    PodsKey owner = other.podsBy(PodsBy.owner());
    TopologyKey racks = other.podsByTopology(PodsBy.label("app"), "rack");
    String declare = " is read and not declared; declare it with Reads.";
    undeclared("label \"rack\" of the node" + declare + "nodeLabel", (pod, node) -> node.get(rack));
    undeclared(
        "annotation \"a\" of the pod" + declare + "podAnnotation",
        (pod, node) -> pod.annotation("a"));
    undeclared(
        "labels of the node that begin with \"\"" + declare + "nodeLabels",
        (pod, node) -> node.labels());
    undeclared(
        "TAINTS of the node" + declare + "node(NodePart.TAINTS)", (pod, node) -> node.taints());
    undeclared("OWNER of the pod" + declare + "pod(PodPart.OWNER)", (pod, node) -> pod.owner());
    undeclared("USAGE of the node" + declare + "node(NodePart.USAGE)", (pod, node) -> node.usage());
    undeclared(
        "RAW_JSON of the node" + declare + "node(NodePart.RAW_JSON)",
        (pod, node) -> node.rawJson());
    undeclared(
        "RAW_JSON of the pod" + declare + "pod(PodPart.RAW_JSON)",
        (pod, node) -> pod.raw(Object.class));
    undeclared(
        "a count of pods" + declare + "podsBy(PodsBy.owner())",
        (pod, node) -> node.podsLike(owner, pod));
    undeclared(
        "a count of pods by topology" + declare + "podsByTopology(PodsBy.label(\"app\"), \"rack\")",
        (pod, node) -> pod.podsLike(racks));
    NoAnswerException sums =
        assertThrows(
            NoAnswerException.class,
            () ->
                said(
                    other,
                    (pod, node) -> node.podsLike(owner, pod).get().count().get().requested()));
    assertTrue(
        sums.getMessage().endsWith("declare it with Reads.podsAndRequestsBy(PodsBy.owner())"),
        sums.getMessage());
  }

  @Test
  void everythingIsAllFactsAndLabelsAndTheNamesOfNodes() {
    Reads reads = Reads.everything();
    NodeKey rack = reads.nodeLabel("rack");
    NodePrefix prefix = reads.nodeLabels("x/");
    NodeKey note = reads.nodeAnnotation("note");
    assertEquals("Optional[]", said(reads, (pod, node) -> node.get(rack)));
    assertEquals("Optional.empty", said(reads, (pod, node) -> node.label("zone")));
    assertEquals("{x/1=a, x/2=b}", said(reads, (pod, node) -> node.entries(prefix)));
    assertEquals("3", said(reads, (pod, node) -> node.labels().size()));
    assertEquals("Optional[ok]", said(reads, (pod, node) -> node.get(note)));
    assertEquals("n1 4000", said(reads, (pod, node) -> node.name() + " " + cpu(node)));
    assertEquals(
        "shop {app=web}", said(reads, (pod, node) -> pod.namespace() + " " + pod.labels()));
    for (BiFunction<Pod, Node, Object> text :
        List.<BiFunction<Pod, Node, Object>>of(
            (pod, node) -> pod.name(),
            (pod, node) -> pod.annotation("team"),
            (pod, node) -> node.usage(),
            (pod, node) -> node.nominated(),
            (pod, node) -> node.rawJson())) {
      String failure = assertThrows(NoAnswerException.class, () -> said(reads, text)).getMessage();
      assertTrue(failure.contains(" is read and not declared; declare it with Reads."), failure);
    }
  }

  private static long cpu(Node node) {
    return node.allocatable().orElseThrow().getMilliCpu();
  }

  @Test
  void everythingMayBeReadInsteadOfWhatIsDeclared() {
    Says policy = new Says(new Reads(), (pod, node) -> node.labels().size() + node.name());
    assertThrows(NoAnswerException.class, () -> Testing.filter(policy, POD, List.of(NODE)));
    assertEquals(
        "3n1", Testing.filter(Testing.everything(policy), POD, List.of(NODE)).get(0).reason());
    TestPod named = new TestPod("shop").identity("web-1", "u").annotation("a", "b");
    Says rest = new Says(new Reads(), (pod, node) -> pod.name().get() + pod.annotations());
    assertEquals(
        "web-1{a=b}",
        Testing.filter(Testing.everything(rest), named, List.of(NODE)).get(0).reason());
  }

  @Test
  void aRejectionHasAllOfItsVerdict() {
    for (Verdict verdict :
        List.of(
            Verdict.reject("full"),
            Verdict.reject("drained").byRule("racks").unresolvable(),
            Verdict.reject("closed").retryAfter(Duration.ofSeconds(0xFFFF_FFFFL)))) {
      Policy policy =
          new Policy() {
            @Override
            public Info info() {
              return Info.of("p", "1").filters(Verb.perNode());
            }

            @Override
            public Verdict filter(Pod pod, Node node) {
              return verdict;
            }
          };
      assertEquals(
          List.of(new Testing.Rejected("n1", verdict)), Testing.filter(policy, POD, List.of(NODE)));
    }
  }

  @Test
  void podsAreCountedAsTheGatewayCountsThem() {
    Reads reads = new Reads();
    PodsKey owner = reads.podsAndRequestsBy(PodsBy.owner());
    PodsKey app = reads.podsBy(PodsBy.label("app"));
    PodsKey tier = reads.podsBy(PodsBy.label("tier"));
    TestPod large = new TestPod("shop").owner("web-1").requests(300, 7);
    TestNode node =
        new TestNode("n")
            .running(POD, 2)
            .terminating(large, 3)
            .running(new TestPod("other").label("app", "web"), 9)
            .running(new TestPod("shop").owner("db"), 4);
    List<TestNode> nodes = List.of(node, new TestNode("empty"));
    Says by =
        new Says(
            reads,
            (pod, each) ->
                each.podsLike(owner, pod)
                    .map(
                        like ->
                            like.atMost()
                                + "/"
                                + like.count().get().terminating()
                                + "/"
                                + like.count().get().requested().getMilliCpu())
                    .get());
    assertEquals(
        List.of("5/3/900", "0/0/0"),
        Testing.filter(by, POD, nodes).stream().map(Testing.Rejected::reason).toList());
    Says byApp =
        new Says(
            reads,
            (pod, each) ->
                each.podsLike(app, pod).get().atLeast()
                    + " of "
                    + each.podCounts(app).stream()
                        .map(count -> count.namespace().get() + ":" + count.pods())
                        .toList());
    assertEquals("2 of [other:9, shop:2]", Testing.filter(byApp, POD, nodes).get(0).reason());
    Says none = new Says(reads, (pod, each) -> each.podsLike(tier, pod));
    assertEquals("Optional.empty", Testing.filter(none, POD, nodes).get(0).reason());
  }

  @Test
  void countsThatAreLeftOutAreUnknown() {
    Reads reads = new Reads();
    PodsKey owner = reads.podsBy(PodsBy.owner());
    TestNode node = new TestNode("n");
    for (int at = 0; at < 600; at++) {
      node.running(new TestPod("shop").owner("o%03d".formatted(at)), at < 88 ? 1 : 2);
    }
    Says policy =
        new Says(
            reads,
            (pod, each) -> {
              var like = each.podsLike(owner, pod).get();
              return like.atLeast() + ".." + like.atMost() + " " + each.omittedPods(owner);
            });
    TestPod unlisted = new TestPod("shop").owner("o000");
    assertEquals("0..88 88", Testing.filter(policy, unlisted, List.of(node)).get(0).reason());
    TestPod listed = new TestPod("shop").owner("o599");
    assertEquals("2..2 88", Testing.filter(policy, listed, List.of(node)).get(0).reason());
  }

  @Test
  void podsInTheClusterAreAddedUpByTopology() {
    Reads reads = new Reads();
    TopologyKey racks = reads.podsByTopology(PodsBy.owner(), "rack");
    TopologyKey cluster = reads.podsByTopology(PodsBy.owner(), "");
    List<TestNode> nodes =
        List.of(
            new TestNode("a").label("rack", "r1").running(POD, 2),
            new TestNode("b").label("rack", "r1").running(POD, 1),
            new TestNode("c").label("rack", "r2"),
            new TestNode("d").running(POD, 5));
    Says policy =
        new Says(
            reads,
            (pod, node) -> {
              Domains domains = pod.podsLike(racks).get();
              Optional<String> here = domains.of(node).map(like -> "n" + like.atMost());
              return here + " " + pod.podsLike(cluster).get().of(node).get().atMost();
            });
    assertEquals(
        List.of("Optional[n3] 8", "Optional[n3] 8", "Optional[n0] 8", "Optional.empty 8"),
        Testing.filter(policy, POD, nodes).stream().map(Testing.Rejected::reason).toList());
  }

  @Test
  void aTolerationBearsATaintAsInKubernetes() {
    record Case(TestPod pod, boolean tolerates) {}
    Taint taint = Taint.newBuilder().setKey("gpu").setValue("a100").setEffect("NoSchedule").build();
    for (Case each :
        List.of(
            new Case(new TestPod("s").toleration("gpu", "Equal", "a100", "NoSchedule"), true),
            new Case(new TestPod("s").toleration("gpu", "", "a100", ""), true),
            new Case(new TestPod("s").toleration("gpu", "Exists", "", "NoSchedule"), true),
            new Case(new TestPod("s").toleration("", "Exists", "", ""), true),
            new Case(new TestPod("s").toleration("gpu", "Equal", "h100", "NoSchedule"), false),
            new Case(new TestPod("s").toleration("gpu", "Exists", "", "NoExecute"), false),
            new Case(new TestPod("s").toleration("gpu", "Near", "a100", ""), false))) {
      Says policy =
          new Says(new Reads().pod(PodPart.TOLERATIONS), (pod, node) -> pod.tolerates(taint));
      assertEquals(
          String.valueOf(each.tolerates),
          Testing.filter(policy, each.pod, List.of(NODE)).get(0).reason());
    }
  }

  @Test
  void objectsAreReadAsModels() {
    Policy policy =
        new Policy() {
          @Override
          public Info info() {
            Reads reads = new Reads().node(NodePart.RAW_JSON).pod(PodPart.RAW_JSON);
            return Info.of("raw", "1").filters(Verb.perNode().reads(reads));
          }

          @Override
          public Verdict filter(Pod pod, Node node) {
            var model = node.raw(io.fabric8.kubernetes.api.model.Node.class).orElseThrow();
            var podModel = pod.raw(io.fabric8.kubernetes.api.model.Pod.class).orElseThrow();
            return Verdict.reject(
                model.getStatus().getNodeInfo().getKernelVersion()
                    + podModel.getSpec().getContainers().get(0).getImage());
          }
        };
    TestNode node =
        new TestNode("n")
            .rawJson(
                "{\"kind\":\"Node\",\"status\":{\"nodeInfo\":{\"kernelVersion\":\"6.1\"},\"newField\":1}}");
    TestPod pod = new TestPod("s").rawJson("{\"spec\":{\"containers\":[{\"image\":\"web:1\"}]}}");
    assertEquals("6.1web:1", Testing.filter(policy, pod, List.of(node)).get(0).reason());
    NoAnswerException failure =
        assertThrows(
            NoAnswerException.class,
            () ->
                Testing.filter(policy, pod, List.of(new TestNode("n").rawJson("{\"status\":7}"))));
    assertTrue(failure.getMessage().contains("the JSON of the node cannot be read as io.fabric8"));
  }

  @Test
  void victimsAreSentAsDeclared() {
    Policy policy =
        new Policy() {
          @Override
          public Info info() {
            Reads reads = new Reads().pod(PodPart.PRIORITY);
            return Info.of("low", "1").preempts(Verb.perNode().reads(reads));
          }

          @Override
          public Eviction preempt(Pod pod, Candidate candidate) {
            return Eviction.of(
                candidate,
                victim -> victim.pod().filter(known -> known.priority() < 10).isPresent());
          }
        };
    TestPod low = new TestPod("shop").priority(1);
    TestPod high = new TestPod("shop").priority(20);
    assertEquals(
        List.of(new Testing.Kept("a", List.of("u1"))),
        Testing.preempt(
            policy,
            high,
            List.of(
                new TestCandidate(new TestNode("a"))
                    .victim("u1", low)
                    .victim("u2", high)
                    .unknownVictim("u3"),
                new TestCandidate(new TestNode("b")).unknownVictim("u4"))));
  }

  /** Copies the pod's label app and the node's label rack to another label. */
  private record Copies(Reads reads) implements Policy {
    @Override
    public Info info() {
      Reads ofPod = new Reads();
      ofPod.podLabel("app");
      Hook hook = Hook.changes(ChangedPart.NODE_LABELS).reads(reads);
      return Info.of("copies", "1")
          .beforeFilter(Hook.changes(ChangedPart.POD_LABELS).pure().reads(ofPod))
          .beforeFilterNodes(hook.pure())
          .beforeScore(hook);
    }

    @Override
    public PodChange beforeFilter(Pod pod) {
      return pod.label("app")
          .map(app -> PodChange.none().setLabel("copy", app))
          .orElse(PodChange.none());
    }

    @Override
    public NodeChange beforeFilterNode(Pod pod, Node node) {
      return node.label("rack")
          .map(rack -> NodeChange.none().setLabel("copy", rack))
          .orElse(NodeChange.none());
    }

    @Override
    public PodChange beforeScorePod(Pod pod) {
      return pod.label("x").isPresent() ? PodChange.none().removeLabel("x") : PodChange.none();
    }

    @Override
    public NodeChange beforeScoreNode(Pod pod, Node node) {
      return beforeFilterNode(pod, node);
    }
  }

  @Test
  void hooksAreCalledWithoutAServer() {
    Reads reads = new Reads();
    reads.nodeLabel("rack");
    reads.podLabel("x");
    Copies policy = new Copies(reads);
    assertEquals(PodChange.none().setLabel("copy", "web"), Testing.beforeFilter(policy, POD));
    assertEquals(PodChange.none(), Testing.beforeFilter(policy, new TestPod("shop")));
    List<TestNode> nodes =
        List.of(NODE, new TestNode("n2"), new TestNode("n3").label("rack", "r"), NODE);
    NodeChange empty = NodeChange.none().setLabel("copy", "");
    List<NodeChange> changes =
        List.of(empty, NodeChange.none(), NodeChange.none().setLabel("copy", "r"), empty);
    assertEquals(changes, Testing.beforeFilterNodes(policy, POD, nodes));
    assertEquals(new Changes(PodChange.none(), changes), Testing.beforeScore(policy, POD, nodes));
    var everything = Testing.everything(policy);
    assertEquals(PodChange.none().setLabel("copy", "web"), Testing.beforeFilter(everything, POD));
    assertEquals(changes, Testing.beforeFilterNodes(everything, POD, nodes));
    assertEquals(
        new Changes(PodChange.none(), changes), Testing.beforeScore(everything, POD, nodes));
  }

  @Test
  void hooksFailWithoutAServerAsWithOne() {
    Copies none = new Copies(new Reads());
    NoAnswerException read =
        assertThrows(
            NoAnswerException.class, () -> Testing.beforeFilterNodes(none, POD, List.of(NODE)));
    assertEquals(
        "beforeFilterNodes failed: label \"rack\" of the node is read and not declared; declare it with"
            + " Reads.nodeLabel",
        read.getMessage());
    Says filters = new Says(new Reads(), (pod, node) -> "");
    NoAnswerException undeclared =
        assertThrows(NoAnswerException.class, () -> Testing.beforeFilter(filters, POD));
    assertEquals(
        "this policy does not serve BeforeFilter; its GetInfo does not list it",
        undeclared.getMessage());
  }

  @Test
  void theHandshakeCanBeLookedAt() {
    Says policy = new Says(new Reads(), (pod, node) -> "");
    assertEquals("says", Testing.info(policy).getName());
    assertEquals(Map.of(), Resources.getDefaultInstance().getOthersMap());
  }
}
