package io.extendergateway.policy.testing;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.Rehearsal.InCluster;
import io.extendergateway.policy.Rehearsal.Running;
import io.extendergateway.policy.v1alpha1.NodeFacts;
import io.extendergateway.policy.v1alpha1.NodeRow;
import io.extendergateway.policy.v1alpha1.NodeUsage;
import io.extendergateway.policy.v1alpha1.Resources;
import io.extendergateway.policy.v1alpha1.Taint;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** A node to test a policy with. Each method changes it and returns it. */
public final class TestNode {
  private final NodeRow.Builder row = NodeRow.newBuilder();
  private final List<Running> pods = new ArrayList<>();

  /**
   * A node without labels.
   *
   * @param name metadata.name
   */
  public TestNode(String name) {
    row.setName(name).setFacts(NodeFacts.getDefaultInstance());
  }

  /**
   * A node with these facts.
   *
   * @param name metadata.name
   * @param facts the facts
   * @return the node
   */
  public static TestNode of(String name, NodeFacts facts) {
    TestNode node = new TestNode(name);
    node.row.setFacts(facts);
    return node;
  }

  /**
   * With a label.
   *
   * @param key the key
   * @param value the value
   * @return this node
   */
  public TestNode label(String key, String value) {
    facts().putLabels(key, value);
    return this;
  }

  /**
   * With an annotation. The gateway sends only those that are declared.
   *
   * @param key the key
   * @param value the value
   * @return this node
   */
  public TestNode annotation(String key, String value) {
    facts().putAnnotations(key, value);
    return this;
  }

  /**
   * With a taint.
   *
   * @param key the key
   * @param value the value
   * @param effect "NoSchedule", "PreferNoSchedule" or "NoExecute"
   * @return this node
   */
  public TestNode taint(String key, String value, String effect) {
    facts().addTaints(Taint.newBuilder().setKey(key).setValue(value).setEffect(effect));
    return this;
  }

  /**
   * Cordoned.
   *
   * @return this node
   */
  public TestNode unschedulable() {
    facts().setUnschedulable(true);
    return this;
  }

  /**
   * With a condition.
   *
   * @param type such as "Ready"
   * @param status "True", "False" or "Unknown"
   * @return this node
   */
  public TestNode condition(String type, String status) {
    facts().putConditions(type, status);
    return this;
  }

  /**
   * With this status.allocatable. Sums of requests contain the extended resources that the node
   * reports.
   *
   * @param milliCpu thousandths of a CPU
   * @param memory bytes
   * @return this node
   */
  public TestNode allocatable(long milliCpu, long memory) {
    return allocatable(Resources.newBuilder().setMilliCpu(milliCpu).setMemory(memory).build());
  }

  /**
   * With this status.allocatable.
   *
   * @param amounts the amounts
   * @return this node
   */
  public TestNode allocatable(Resources amounts) {
    facts().setAllocatable(amounts);
    return this;
  }

  /**
   * With this status.capacity.
   *
   * @param amounts the amounts
   * @return this node
   */
  public TestNode capacity(Resources amounts) {
    facts().setCapacity(amounts);
    return this;
  }

  /**
   * With the requests of the pods on it; without, the usage is unknown.
   *
   * @param usage the sums
   * @return this node
   */
  public TestNode usage(NodeUsage usage) {
    row.setUsage(usage);
    return this;
  }

  /**
   * With this many pods like this one on it, besides those that are there already. A verb that
   * counts pods gets the counts that the gateway would send for a cluster of the nodes of the call;
   * the {@linkplain #usage usage} stays as it is.
   *
   * @param pod one of them
   * @param number how many
   * @return this node
   */
  public TestNode running(TestPod pod, int number) {
    pods.add(new Running(pod.message(), number, 0));
    return this;
  }

  /**
   * The same with pods that are being deleted.
   *
   * @param pod one of them
   * @param number how many
   * @return this node
   */
  public TestNode terminating(TestPod pod, int number) {
    pods.add(new Running(pod.message(), number, number));
    return this;
  }

  /**
   * With this JSON.
   *
   * @param json the object
   * @return this node
   */
  public TestNode rawJson(String json) {
    row.setRawJson(ByteString.copyFrom(json, StandardCharsets.UTF_8));
    return this;
  }

  /**
   * metadata.name.
   *
   * @return the name
   */
  public String name() {
    return row.getName();
  }

  InCluster inCluster() {
    return new InCluster(row.build(), List.copyOf(pods));
  }

  private NodeFacts.Builder facts() {
    return row.getFactsBuilder();
  }
}
