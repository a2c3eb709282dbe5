package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.PodCountBy;
import io.extendergateway.policy.v1beta1.PodCountReads;
import java.util.Objects;
import java.util.Optional;

/**
 * An attribute of pods by which the pods on each node are counted. Pods without it are not counted.
 */
public final class PodsBy implements Comparable<PodsBy> {
  private static final PodsBy OWNER = new PodsBy(PodCountBy.POD_COUNT_BY_OWNER, "");
  private static final PodsBy NAMESPACE = new PodsBy(PodCountBy.POD_COUNT_BY_NAMESPACE, "");
  private static final PodsBy PRIORITY_CLASS =
      new PodsBy(PodCountBy.POD_COUNT_BY_PRIORITY_CLASS_NAME, "");

  private final PodCountBy by;
  private final String label;

  /** What a pod has of it. The namespace is empty unless pods are counted by a label. */
  record Attribute(String namespace, String value) implements Comparable<Attribute> {
    @Override
    public int compareTo(Attribute other) {
      int order = Utf8.compare(namespace, other.namespace);
      return order != 0 ? order : Utf8.compare(value, other.value);
    }
  }

  private PodsBy(PodCountBy by, String label) {
    this.by = by;
    this.label = label;
  }

  /** The UID of the owner that is the controller, such as a ReplicaSet. */
  public static PodsBy owner() {
    return OWNER;
  }

  /** metadata.namespace. */
  public static PodsBy namespace() {
    return NAMESPACE;
  }

  /**
   * The namespace and the value of the label with this key: equal values in two namespaces are
   * counted apart.
   */
  public static PodsBy label(String key) {
    return new PodsBy(PodCountBy.POD_COUNT_BY_LABEL, Objects.requireNonNull(key, "key"));
  }

  /** spec.priorityClassName. */
  public static PodsBy priorityClass() {
    return PRIORITY_CLASS;
  }

  boolean isLabel() {
    return by == PodCountBy.POD_COUNT_BY_LABEL;
  }

  boolean isNamespace() {
    return by == PodCountBy.POD_COUNT_BY_NAMESPACE;
  }

  String key() {
    return label;
  }

  /** What the pod must be read for. */
  PodPart part() {
    return switch (by) {
      case POD_COUNT_BY_OWNER -> PodPart.OWNER;
      case POD_COUNT_BY_PRIORITY_CLASS_NAME -> PodPart.PRIORITY_CLASS;
      default -> PodPart.NAMESPACE;
    };
  }

  /** What the pod has of it, if it has it. */
  Optional<Attribute> of(Pod pod) {
    return switch (by) {
      case POD_COUNT_BY_OWNER -> pod.owner().flatMap(owner -> attribute(owner.getUid()));
      case POD_COUNT_BY_NAMESPACE -> attribute(pod.namespace());
      case POD_COUNT_BY_PRIORITY_CLASS_NAME -> pod.priorityClass().flatMap(PodsBy::attribute);
      // The value of a label may be empty.
      default -> pod.label(label).map(value -> new Attribute(pod.namespace(), value));
    };
  }

  private static Optional<Attribute> attribute(String value) {
    return value.isEmpty() ? Optional.empty() : Optional.of(new Attribute("", value));
  }

  PodCountReads message(boolean requests) {
    return PodCountReads.newBuilder().setBy(by).setLabel(label).setRequests(requests).build();
  }

  @Override
  public int compareTo(PodsBy other) {
    int order = Integer.compare(by.getNumber(), other.by.getNumber());
    return order != 0 ? order : Utf8.compare(label, other.label);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PodsBy that && by == that.by && label.equals(that.label);
  }

  @Override
  public int hashCode() {
    return 31 * by.getNumber() + label.hashCode();
  }

  /** As a policy writes it; a long key is cut. */
  @Override
  public String toString() {
    return switch (by) {
      case POD_COUNT_BY_OWNER -> "PodsBy.owner()";
      case POD_COUNT_BY_NAMESPACE -> "PodsBy.namespace()";
      case POD_COUNT_BY_PRIORITY_CLASS_NAME -> "PodsBy.priorityClass()";
      default -> "PodsBy.label(\"" + Utf8.cut(label, 64) + "\")";
    };
  }
}
