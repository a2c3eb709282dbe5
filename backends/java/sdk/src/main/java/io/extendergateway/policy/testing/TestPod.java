package io.extendergateway.policy.testing;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1alpha1.NodeAffinity;
import io.extendergateway.policy.v1alpha1.NonZero;
import io.extendergateway.policy.v1alpha1.OwnerReference;
import io.extendergateway.policy.v1alpha1.Pod;
import io.extendergateway.policy.v1alpha1.PodFacts;
import io.extendergateway.policy.v1alpha1.PodIdentity;
import io.extendergateway.policy.v1alpha1.Resources;
import io.extendergateway.policy.v1alpha1.Toleration;
import io.extendergateway.policy.v1alpha1.Volume;
import java.nio.charset.StandardCharsets;

/** A pod to test a policy with. Each method changes it and returns it. */
public final class TestPod {
  private final Pod.Builder pod = Pod.newBuilder();

  /** A pod without labels. */
  public TestPod(String namespace) {
    facts().setNamespace(namespace);
  }

  /** A pod with these facts. */
  public static TestPod of(PodFacts facts) {
    TestPod pod = new TestPod(facts.getNamespace());
    pod.pod.setFacts(facts);
    return pod;
  }

  /** With a name and a UID. The gateway sends them to no pure verb. */
  public TestPod identity(String name, String uid) {
    pod.setIdentity(PodIdentity.newBuilder().setName(name).setUid(uid));
    return this;
  }

  /** With a label. */
  public TestPod label(String key, String value) {
    facts().putLabels(key, value);
    return this;
  }

  /** With an annotation. The gateway sends only those that are declared. */
  public TestPod annotation(String key, String value) {
    facts().putAnnotations(key, value);
    return this;
  }

  /** With a toleration. "" is every key, the operator Equal, every effect. */
  public TestPod toleration(String key, String operator, String value, String effect) {
    facts()
        .addTolerations(
            Toleration.newBuilder()
                .setKey(key)
                .setOperator(operator)
                .setValue(value)
                .setEffect(effect));
    return this;
  }

  /** With a controller of this UID. */
  public TestPod owner(String uid) {
    facts()
        .setOwner(
            OwnerReference.newBuilder()
                .setApiVersion("apps/v1")
                .setKind("ReplicaSet")
                .setName("owner")
                .setUid(uid));
    return this;
  }

  /** With this spec.priority. */
  public TestPod priority(int priority) {
    facts().setPriority(priority);
    return this;
  }

  /** With this spec.priorityClassName. */
  public TestPod priorityClass(String name) {
    facts().setPriorityClassName(name);
    return this;
  }

  /** With these requests, in thousandths of a CPU and bytes. */
  public TestPod requests(long milliCpu, long memory) {
    return requests(
        Resources.newBuilder().setMilliCpu(milliCpu).setMemory(memory).setPods(1).build());
  }

  /** With these requests. */
  public TestPod requests(Resources requests) {
    facts().setRequests(requests);
    return this;
  }

  /** With these requests, as kube-scheduler's scores count them. */
  public TestPod nonzeroRequests(NonZero requests) {
    facts().setNonzeroRequests(requests);
    return this;
  }

  /** With an entry of spec.nodeSelector. */
  public TestPod nodeSelector(String key, String value) {
    facts().putNodeSelector(key, value);
    return this;
  }

  /** With an affinity to nodes. */
  public TestPod nodeAffinity(NodeAffinity affinity) {
    facts().setNodeAffinity(affinity);
    return this;
  }

  /** With a volume of this name, and of this claim or "" for none. */
  public TestPod volume(String name, String claim) {
    facts().addVolumes(Volume.newBuilder().setName(name).setClaim(claim));
    return this;
  }

  /** With this spec.schedulerName. */
  public TestPod schedulerName(String name) {
    facts().setSchedulerName(name);
    return this;
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

  private PodFacts.Builder facts() {
    return pod.getFactsBuilder();
  }
}
