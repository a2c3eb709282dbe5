package io.extendergateway.policy.testing;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.Container;
import io.extendergateway.policy.v1beta1.NodeAffinity;
import io.extendergateway.policy.v1beta1.NonZero;
import io.extendergateway.policy.v1beta1.OwnerReference;
import io.extendergateway.policy.v1beta1.Pod;
import io.extendergateway.policy.v1beta1.PodAffinity;
import io.extendergateway.policy.v1beta1.PodFacts;
import io.extendergateway.policy.v1beta1.ResourceClaim;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Toleration;
import io.extendergateway.policy.v1beta1.TopologySpreadConstraint;
import io.extendergateway.policy.v1beta1.Volume;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.function.Consumer;

/** A pod to test a policy with. Each method changes it and returns it. */
public final class TestPod {
  private final Pod.Builder pod = Pod.newBuilder();

  /** A pod without labels. */
  public TestPod(String namespace) {
    pod.getFactsBuilder().setNamespace(namespace);
  }

  /** A pod with these facts, whose labels and annotations are {@code entries}. */
  public static TestPod of(PodFacts facts) {
    TestPod pod = new TestPod(facts.getNamespace());
    pod.pod.setFacts(facts);
    return pod;
  }

  /** The same pod as a message whose labels and annotations are {@code entries}. */
  static TestPod of(Pod message) {
    TestPod pod = new TestPod("");
    pod.pod.clear().mergeFrom(message);
    return pod;
  }

  /** With a name and a UID. */
  public TestPod identity(String name, String uid) {
    pod.getIdentityBuilder().setName(name).setUid(uid);
    return this;
  }

  /** With this metadata.creationTimestamp, in whole seconds. */
  public TestPod created(Instant time) {
    pod.getIdentityBuilder().setCreatedSeconds(time.getEpochSecond());
    return this;
  }

  /** With a label. */
  public TestPod label(String key, String value) {
    return with(facts -> facts.getLabelsBuilder().putEntries(key, value));
  }

  /** With an annotation. */
  public TestPod annotation(String key, String value) {
    return with(facts -> facts.getAnnotationsBuilder().putEntries(key, value));
  }

  /** With a toleration. "" is every key, the operator Equal, every effect. */
  public TestPod toleration(String key, String operator, String value, String effect) {
    return with(
        facts ->
            facts.addTolerations(
                Toleration.newBuilder()
                    .setKey(key)
                    .setOperator(operator)
                    .setValue(value)
                    .setEffect(effect)));
  }

  /** With a controller of this UID. */
  public TestPod owner(String uid) {
    return with(
        facts ->
            facts.setOwner(
                OwnerReference.newBuilder()
                    .setApiVersion("apps/v1")
                    .setKind("ReplicaSet")
                    .setName("owner")
                    .setUid(uid)));
  }

  /** With this spec.priority. */
  public TestPod priority(int priority) {
    return with(facts -> facts.setPriority(priority));
  }

  /** With this spec.priorityClassName. */
  public TestPod priorityClass(String name) {
    return with(facts -> facts.setPriorityClassName(name));
  }

  /** With these requests, in thousandths of a CPU and bytes. */
  public TestPod requests(long milliCpu, long memory) {
    return requests(
        Resources.newBuilder().setMilliCpu(milliCpu).setMemory(memory).setPods(1).build());
  }

  /** With these requests. */
  public TestPod requests(Resources requests) {
    return with(facts -> facts.setRequests(requests));
  }

  /** With these requests, as kube-scheduler's scores count them. */
  public TestPod nonzeroRequests(NonZero requests) {
    return with(facts -> facts.setNonzeroRequests(requests));
  }

  /** With an entry of spec.nodeSelector. */
  public TestPod nodeSelector(String key, String value) {
    return with(facts -> facts.putNodeSelector(key, value));
  }

  /** With an affinity to nodes. */
  public TestPod nodeAffinity(NodeAffinity affinity) {
    return with(facts -> facts.setNodeAffinity(affinity));
  }

  /** With a volume of this name, and of this claim or "" for none. */
  public TestPod volume(String name, String claim) {
    return with(facts -> facts.addVolumes(Volume.newBuilder().setName(name).setClaim(claim)));
  }

  /** With this volume. */
  public TestPod volume(Volume volume) {
    return with(facts -> facts.addVolumes(volume));
  }

  /** With this spec.schedulerName. */
  public TestPod schedulerName(String name) {
    return with(facts -> facts.setSchedulerName(name));
  }

  /** With this container, after the others. */
  public TestPod container(Container container) {
    return with(facts -> facts.addContainers(container));
  }

  /** With an affinity to pods, and from pods. */
  public TestPod podAffinity(PodAffinity affinity) {
    return with(facts -> facts.setPodAffinity(affinity));
  }

  /** With an entry of spec.topologySpreadConstraints. */
  public TestPod topologySpread(TopologySpreadConstraint constraint) {
    return with(facts -> facts.addTopologySpread(constraint));
  }

  /** With an entry of spec.resourceClaims. */
  public TestPod resourceClaim(ResourceClaim claim) {
    return with(facts -> facts.addResourceClaims(claim));
  }

  /** In the PodGroup of this name. */
  public TestPod podGroup(String name) {
    return with(facts -> facts.setPodGroupName(name));
  }

  /** With this spec.runtimeClassName. */
  public TestPod runtimeClass(String name) {
    return with(facts -> facts.setRuntimeClassName(name));
  }

  /** With this spec.preemptionPolicy. */
  public TestPod preemptionPolicy(String policy) {
    return with(facts -> facts.setPreemptionPolicy(policy));
  }

  /** With this spec.serviceAccountName. */
  public TestPod serviceAccount(String name) {
    return with(facts -> facts.setServiceAccountName(name));
  }

  /** With this JSON. */
  public TestPod rawJson(String json) {
    pod.setRawJson(ByteString.copyFrom(json, StandardCharsets.UTF_8));
    return this;
  }

  /** All of it, as the contract's message. */
  public Pod message() {
    return pod.build();
  }

  private TestPod with(Consumer<PodFacts.Builder> change) {
    change.accept(pod.getFactsBuilder());
    return this;
  }
}
