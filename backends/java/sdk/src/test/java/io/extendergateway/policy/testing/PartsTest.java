package io.extendergateway.policy.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.Info;
import io.extendergateway.policy.Node;
import io.extendergateway.policy.NodePart;
import io.extendergateway.policy.Pod;
import io.extendergateway.policy.PodPart;
import io.extendergateway.policy.Policy;
import io.extendergateway.policy.Reads;
import io.extendergateway.policy.Verb;
import io.extendergateway.policy.Verdict;
import io.extendergateway.policy.v1beta1.Container;
import io.extendergateway.policy.v1beta1.NodeAffinity;
import io.extendergateway.policy.v1beta1.NodeSelector;
import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.NonZero;
import io.extendergateway.policy.v1beta1.PodAffinity;
import io.extendergateway.policy.v1beta1.PodAffinityTerm;
import io.extendergateway.policy.v1beta1.ResourceClaim;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.SystemInfo;
import io.extendergateway.policy.v1beta1.TopologySpreadConstraint;
import io.extendergateway.policy.v1beta1.Volume;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Every part of pods and nodes: a test can give it, and it is read if it is declared. */
class PartsTest {
  private static final Resources AMOUNTS = Resources.newBuilder().setMilliCpu(2).build();

  private static final TestPod POD =
      new TestPod("shop")
          .identity("web-1", "u1")
          .created(Instant.ofEpochSecond(7))
          .owner("o1")
          .priority(5)
          .priorityClass("high")
          .requests(AMOUNTS)
          .nonzeroRequests(NonZero.newBuilder().setMilliCpu(3).build())
          .toleration("gpu", "Exists", "", "")
          .nodeSelector("disk", "ssd")
          .nodeAffinity(
              NodeAffinity.newBuilder().setRequired(NodeSelector.getDefaultInstance()).build())
          .volume(
              Volume.newBuilder().setName("v").setSource("csi").setDriver("d.example.com").build())
          .schedulerName("default")
          .rawJson("{}")
          .container(Container.newBuilder().setName("c").setImage("web:1").setInit(true).build())
          .podAffinity(
              PodAffinity.newBuilder()
                  .addAntiRequired(PodAffinityTerm.newBuilder().setTopologyKey("zone"))
                  .build())
          .topologySpread(TopologySpreadConstraint.newBuilder().setMaxSkew(1).build())
          .resourceClaim(ResourceClaim.newBuilder().setName("r").setClaim("gpu").build())
          .podGroup("gang")
          .runtimeClass("kata")
          .preemptionPolicy("Never")
          .serviceAccount("robot");

  private static final TestNode NODE =
      new TestNode("n1")
          .taint("gpu", "", "NoSchedule")
          .unschedulable()
          .condition("Ready", "True")
          .capacity(AMOUNTS)
          .allocatable(AMOUNTS)
          .usage(NodeUsage.newBuilder().setRequested(AMOUNTS).build())
          .nominated(NodeUsage.newBuilder().setRequested(AMOUNTS).build())
          .rawJson("{}")
          .image(9, "web:1", "web@sha256:1")
          .systemInfo(SystemInfo.newBuilder().setArchitecture("arm64").build())
          .address("InternalIP", "10.0.0.1")
          .providerId("aws:///i-1");

  private static Object read(Pod pod, PodPart part) {
    return switch (part) {
      case IDENTITY -> pod.created().get();
      case NAMESPACE -> pod.namespace();
      case OWNER -> pod.owner().get().getUid();
      case PRIORITY -> pod.priority();
      case PRIORITY_CLASS -> pod.priorityClass().get();
      case REQUESTS -> pod.requests().getMilliCpu();
      case NONZERO_REQUESTS -> pod.nonzeroRequests().getMilliCpu();
      case TOLERATIONS -> pod.tolerations().get(0).getKey();
      case NODE_SELECTOR -> pod.nodeSelector();
      case NODE_AFFINITY -> pod.nodeAffinity().get().hasRequired();
      case VOLUMES -> pod.volumes().get(0).getDriver();
      case SCHEDULER_NAME -> pod.schedulerName().get();
      case RAW_JSON -> pod.rawJson().get();
      case CONTAINERS -> pod.containers().get(0).getImage();
      case POD_AFFINITY -> pod.podAffinity().get().getAntiRequired(0).getTopologyKey();
      case TOPOLOGY_SPREAD -> pod.topologySpread().get(0).getMaxSkew();
      case RESOURCE_CLAIMS -> pod.resourceClaims().get(0).getClaim();
      case POD_GROUP -> pod.podGroup().get();
      case RUNTIME_CLASS -> pod.runtimeClass().get();
      case PREEMPTION_POLICY -> pod.preemptionPolicy().get();
      case SERVICE_ACCOUNT -> pod.serviceAccount().get();
    };
  }

  private static Object read(Node node, NodePart part) {
    return switch (part) {
      case NAME -> node.name();
      case TAINTS -> node.taints().get(0).getKey();
      case UNSCHEDULABLE -> node.isUnschedulable();
      case CONDITIONS -> node.condition("Ready").get();
      case CAPACITY -> node.capacity().get().getMilliCpu();
      case ALLOCATABLE -> node.allocatable().get().getMilliCpu();
      case USAGE -> node.usage().get().getRequested().getMilliCpu();
      case RAW_JSON -> node.rawJson().get();
      case IMAGES -> node.images().get(0).getNamesList();
      case SYSTEM_INFO -> node.systemInfo().get().getArchitecture();
      case ADDRESSES -> node.addresses().get(0).getAddress();
      case PROVIDER_ID -> node.providerId().get();
      case NOMINATED -> node.nominated().get().getRequested().getMilliCpu();
    };
  }

  /** Says what it reads. */
  private record Says(Reads reads, BiFunction<Pod, Node, Object> read) implements Policy {
    @Override
    public Info info() {
      return Info.of("says", "1").filters(Verb.perNode().reads(reads));
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return Verdict.reject(String.valueOf(read.apply(pod, node)));
    }
  }

  private static String said(Reads reads, BiFunction<Pod, Node, Object> read) {
    return Testing.filter(new Says(reads, read), POD, List.of(NODE)).get(0).reason();
  }

  private static void undeclared(String part, Reads others, BiFunction<Pod, Node, Object> read) {
    var failure = assertThrows(NoAnswerException.class, () -> said(others, read)).getMessage();
    assertTrue(failure.endsWith("not declared; declare it with Reads." + part), failure);
  }

  @Test
  void aPartOfAPodIsReadIfItIsDeclared() {
    List<String> values = new ArrayList<>();
    for (PodPart part : PodPart.values()) {
      PodPart[] others =
          Stream.of(PodPart.values()).filter(other -> other != part).toArray(PodPart[]::new);
      values.add(said(new Reads().pod(part), (pod, node) -> read(pod, part)));
      undeclared(
          "pod(PodPart.%s)".formatted(part),
          new Reads().pod(others),
          (pod, node) -> read(pod, part));
    }
    assertEquals(
        "1970-01-01T00:00:07Z shop o1 5 high 2 3 gpu {disk=ssd} true d.example.com default {}"
            + " web:1 zone 1 gpu gang kata Never robot",
        String.join(" ", values));
  }

  @Test
  void aPartOfANodeIsReadIfItIsDeclared() {
    List<String> values = new ArrayList<>();
    for (NodePart part : NodePart.values()) {
      NodePart[] others =
          Stream.of(NodePart.values()).filter(other -> other != part).toArray(NodePart[]::new);
      values.add(said(new Reads().node(part), (pod, node) -> read(node, part)));
      undeclared(
          "node(NodePart.%s)".formatted(part),
          new Reads().node(others),
          (pod, node) -> read(node, part));
    }
    assertEquals(
        "n1 gpu true True 2 2 2 {} [web:1, web@sha256:1] arm64 10.0.0.1 aws:///i-1 2",
        String.join(" ", values));
  }
}
