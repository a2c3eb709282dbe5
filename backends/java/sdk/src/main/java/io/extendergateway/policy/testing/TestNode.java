package io.extendergateway.policy.testing;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.Rehearsal.InCluster;
import io.extendergateway.policy.Rehearsal.Running;
import io.extendergateway.policy.v1beta1.NodeAddress;
import io.extendergateway.policy.v1beta1.NodeFacts;
import io.extendergateway.policy.v1beta1.NodeImage;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.SystemInfo;
import io.extendergateway.policy.v1beta1.Taint;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** A node to test a policy with. Each method changes it and returns it. */
public final class TestNode {
  private final NodeRow.Builder row = NodeRow.newBuilder();
  private final List<Running> pods = new ArrayList<>();

  /** A node without labels. */
  public TestNode(String name) {
    row.setName(name).setFacts(NodeFacts.getDefaultInstance());
  }

  /** A node with these facts, whose labels and annotations are {@code entries}. */
  public static TestNode of(String name, NodeFacts facts) {
    TestNode node = new TestNode(name);
    node.row.setFacts(facts);
    return node;
  }

  /** The same node as a row whose labels and annotations are {@code entries}. */
  static TestNode of(NodeRow message) {
    TestNode node = new TestNode(message.getName());
    node.row.mergeFrom(message).clearPodCounts();
    return node;
  }

  /** With a label. */
  public TestNode label(String key, String value) {
    return with(facts -> facts.getLabelsBuilder().putEntries(key, value));
  }

  /** With an annotation. */
  public TestNode annotation(String key, String value) {
    return with(facts -> facts.getAnnotationsBuilder().putEntries(key, value));
  }

  /** With a taint of the effect "NoSchedule", "PreferNoSchedule" or "NoExecute". */
  public TestNode taint(String key, String value, String effect) {
    return with(
        facts -> facts.addTaints(Taint.newBuilder().setKey(key).setValue(value).setEffect(effect)));
  }

  /** Cordoned. */
  public TestNode unschedulable() {
    return with(facts -> facts.setUnschedulable(true));
  }

  /** With a condition such as "Ready" of the status "True", "False" or "Unknown". */
  public TestNode condition(String type, String status) {
    return with(facts -> facts.putConditions(type, status));
  }

  /**
   * With this status.allocatable, in thousandths of a CPU and bytes. Sums of requests contain the
   * extended resources that the node reports.
   */
  public TestNode allocatable(long milliCpu, long memory) {
    return allocatable(Resources.newBuilder().setMilliCpu(milliCpu).setMemory(memory).build());
  }

  /** With this status.allocatable. */
  public TestNode allocatable(Resources amounts) {
    return with(facts -> facts.setAllocatable(amounts));
  }

  /** With this status.capacity. */
  public TestNode capacity(Resources amounts) {
    return with(facts -> facts.setCapacity(amounts));
  }

  /** With an image of these names. */
  public TestNode image(long bytes, String... names) {
    return with(
        facts ->
            facts.addImages(NodeImage.newBuilder().setBytes(bytes).addAllNames(List.of(names))));
  }

  /** With this status.nodeInfo. */
  public TestNode systemInfo(SystemInfo info) {
    return with(facts -> facts.setSystemInfo(info));
  }

  /** With an address of a type such as "InternalIP". */
  public TestNode address(String type, String address) {
    return with(
        facts -> facts.addAddresses(NodeAddress.newBuilder().setType(type).setAddress(address)));
  }

  /** With this spec.providerID. */
  public TestNode providerId(String id) {
    return with(facts -> facts.setProviderId(id));
  }

  /** With the requests of the pods on it; without, the usage is unknown. */
  public TestNode usage(NodeUsage usage) {
    row.setUsage(usage);
    return this;
  }

  /** With the requests of the pods that are nominated to it; without, they are unknown. */
  public TestNode nominated(NodeUsage usage) {
    row.setNominated(usage);
    return this;
  }

  /**
   * With this many pods like this one on it, besides those that are there already. A verb that
   * counts pods gets the counts that the gateway would send for a cluster of the nodes of the call;
   * the {@linkplain #usage usage} stays as it is.
   */
  public TestNode running(TestPod pod, int number) {
    pods.add(new Running(pod.message(), number, 0));
    return this;
  }

  /** The same with pods that are being deleted. */
  public TestNode terminating(TestPod pod, int number) {
    pods.add(new Running(pod.message(), number, number));
    return this;
  }

  /** With this JSON. */
  public TestNode rawJson(String json) {
    row.setRawJson(ByteString.copyFrom(json, StandardCharsets.UTF_8));
    return this;
  }

  /** metadata.name. */
  public String name() {
    return row.getName();
  }

  InCluster inCluster() {
    return new InCluster(row.build(), List.copyOf(pods));
  }

  private TestNode with(Consumer<NodeFacts.Builder> change) {
    change.accept(row.getFactsBuilder());
    return this;
  }
}
