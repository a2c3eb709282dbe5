package io.extendergateway.policy;

import io.extendergateway.policy.Layout.SentCount;
import io.extendergateway.policy.v1beta1.MapValues;
import io.extendergateway.policy.v1beta1.NodeAddress;
import io.extendergateway.policy.v1beta1.NodeFacts;
import io.extendergateway.policy.v1beta1.NodeImage;
import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.PodCounts;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.SystemInfo;
import io.extendergateway.policy.v1beta1.Taint;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * One node. It has what the verb declares with {@link Verb#reads}: all methods that read something
 * else throw {@link UndeclaredReadException}. Valid for the duration of the call.
 *
 * <p>Amounts are in the units of the contract: thousandths of a CPU, bytes, whole pods and devices.
 */
public final class Node {
  final Row row;
  private final Access access;

  Node(Row row, Access access) {
    this.row = row;
    this.access = access;
  }

  /** metadata.name. */
  public String name() {
    access.part(NodePart.NAME);
    return row.message.getName();
  }

  /**
   * The value of a declared label or annotation.
   *
   * @param key what {@link Reads#nodeLabel} or {@link Reads#nodeAnnotation} returned
   */
  public Optional<String> get(NodeKey key) {
    return value(key.key.map(), key.key.text(), access.key(key.key));
  }

  /**
   * The labels or annotations with a declared prefix.
   *
   * @param prefix what {@link Reads#nodeLabels} or {@link Reads#nodeAnnotations} returned
   */
  public Map<String, String> entries(NodePrefix prefix) {
    access.entries(prefix.map, prefix.text);
    return Values.entries(map(prefix.map), prefix.text);
  }

  /** The value of a label. */
  public Optional<String> label(String key) {
    return value(Key.Which.LABELS, key, access.text(Key.Which.LABELS, key));
  }

  /** All labels. The prefix "" declares them, and {@link Reads#everything} does. */
  public Map<String, String> labels() {
    access.entries(Key.Which.LABELS, "");
    return map(Key.Which.LABELS).getEntriesMap();
  }

  /** The value of an annotation. */
  public Optional<String> annotation(String key) {
    return value(Key.Which.ANNOTATIONS, key, access.text(Key.Which.ANNOTATIONS, key));
  }

  /** All annotations. The prefix "" declares them. */
  public Map<String, String> annotations() {
    access.entries(Key.Which.ANNOTATIONS, "");
    return map(Key.Which.ANNOTATIONS).getEntriesMap();
  }

  /** spec.taints, in order. */
  public List<Taint> taints() {
    access.part(NodePart.TAINTS);
    return facts().getTaintsList();
  }

  /** spec.unschedulable: whether the node is cordoned. */
  public boolean isUnschedulable() {
    access.part(NodePart.UNSCHEDULABLE);
    return facts().getUnschedulable();
  }

  /**
   * The status of a condition such as "Ready": "True", "False" or "Unknown"; empty when it is not
   * reported.
   */
  public Optional<String> condition(String type) {
    access.part(NodePart.CONDITIONS);
    return Optional.ofNullable(facts().getConditionsOrDefault(type, null));
  }

  /** status.capacity; empty while it is not reported. */
  public Optional<Resources> capacity() {
    access.part(NodePart.CAPACITY);
    return facts().hasCapacity() ? Optional.of(facts().getCapacity()) : Optional.empty();
  }

  /** status.allocatable, the total that pods may request; empty while it is not reported. */
  public Optional<Resources> allocatable() {
    access.part(NodePart.ALLOCATABLE);
    return facts().hasAllocatable() ? Optional.of(facts().getAllocatable()) : Optional.empty();
  }

  /**
   * What the pods on the node have requested. It lags behind what kube-scheduler assumes, usually
   * by some milliseconds: no basis for an exclusive allocation. Empty when it is not known.
   */
  public Optional<NodeUsage> usage() {
    access.part(NodePart.USAGE);
    return row.message.hasUsage() ? Optional.of(row.message.getUsage()) : Optional.empty();
  }

  /**
   * The requests of the pods that are nominated to the node and wait for room there after a
   * preemption; the pod to be placed may be one of them. Never includes what {@link #usage} has,
   * and lags behind like it. Empty when it is not known.
   */
  public Optional<NodeUsage> nominated() {
    access.part(NodePart.NOMINATED);
    return row.message.hasNominated() ? Optional.of(row.message.getNominated()) : Optional.empty();
  }

  /** status.images, in order. */
  public List<NodeImage> images() {
    access.part(NodePart.IMAGES);
    return facts().getImagesList();
  }

  /**
   * status.nodeInfo, without what changes at a reboot, such as its architecture; empty while it is
   * not reported.
   */
  public Optional<SystemInfo> systemInfo() {
    access.part(NodePart.SYSTEM_INFO);
    return facts().hasSystemInfo() ? Optional.of(facts().getSystemInfo()) : Optional.empty();
  }

  /** status.addresses, in order. */
  public List<NodeAddress> addresses() {
    access.part(NodePart.ADDRESSES);
    return facts().getAddressesList();
  }

  /** spec.providerID; empty if the node has none. */
  public Optional<String> providerId() {
    access.part(NodePart.PROVIDER_ID);
    return Values.given(facts().getProviderId());
  }

  /**
   * The pods on the node that are like this one: with the same owner, namespace, value of the label
   * or priority class, as the key declares.
   *
   * <p>Pods count from when they are bound until they have ended or are gone, also while they are
   * being deleted; the pod of a call is none of them. The count lags behind what kube-scheduler
   * assumes by the time that a Binding needs, usually some milliseconds: the pod that it placed
   * before may be missing. Empty if the pod lacks what is counted by: a pod without a controller
   * has no siblings.
   */
  public Optional<PodsLike> podsLike(PodsKey key, Pod pod) {
    SentCount sent = access.pods(key.by);
    Optional<PodsBy.Attribute> attribute = key.by.of(pod);
    if (attribute.isEmpty()) {
      return Optional.empty();
    }
    PodCounts list = row.message.getPodCounts(sent.position());
    var count = row.find(list, attribute.get());
    if (count != null) {
      return Optional.of(PodsLike.counted(PodCount.onNode(sent, count)));
    }
    long omitted = Integer.toUnsignedLong(list.getOmittedPods());
    return Optional.of(
        omitted == 0
            ? PodsLike.counted(PodCount.noneOnNode(sent, attribute.get()))
            : PodsLike.upTo(omitted));
  }

  /**
   * The pods on the node, counted as the key declares, by namespace and value. Not those of {@link
   * #omittedPods}, and not those that lack what is counted by.
   */
  public List<PodCount> podCounts(PodsKey key) {
    SentCount sent = access.pods(key.by);
    return row.message.getPodCounts(sent.position()).getCountsList().stream()
        .map(count -> PodCount.onNode(sent, count))
        .toList();
  }

  /**
   * How many pods {@link #podCounts} leaves out. The gateway sends at most 512 counts of a node,
   * those with the most pods, and none whose value is longer than 253 bytes: usually 0.
   */
  public long omittedPods(PodsKey key) {
    SentCount sent = access.pods(key.by);
    return Integer.toUnsignedLong(row.message.getPodCounts(sent.position()).getOmittedPods());
  }

  /** The object's JSON, unchanged; empty if the gateway does not have it. */
  public Optional<String> rawJson() {
    access.part(NodePart.RAW_JSON);
    return Values.given(row.message.getRawJson().toStringUtf8());
  }

  /**
   * The object as a model that Jackson reads, such as {@code io.fabric8.kubernetes.api.model.Node}
   * or {@code com.fasterxml.jackson.databind.JsonNode}. Decoded once for each row, so do not modify
   * it. Empty if the gateway does not have its JSON.
   */
  public <T> Optional<T> raw(Class<T> model) {
    access.part(NodePart.RAW_JSON);
    return row.message.getRawJson().isEmpty() ? Optional.empty() : Optional.of(row.model(model));
  }

  private NodeFacts facts() {
    return row.facts();
  }

  private MapValues map(Key.Which map) {
    return map == Key.Which.LABELS ? facts().getLabels() : facts().getAnnotations();
  }

  private Optional<String> value(Key.Which map, String key, int place) {
    return Values.at(place, map(map), key);
  }

  @Override
  public String toString() {
    return "Node(" + row.message.getName() + ")";
  }
}
