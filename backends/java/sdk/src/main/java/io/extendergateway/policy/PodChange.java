package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.NodeAffinity;
import io.extendergateway.policy.v1beta1.PodAffinity;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Toleration;
import io.extendergateway.policy.v1beta1.TopologySpread;
import io.extendergateway.policy.v1beta1.TopologySpreadConstraint;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;

/**
 * What a hook changes about the pod that the backends of a call are told about. Immutable: each
 * method returns a new change. What is removed is removed before something is added.
 *
 * <p>The gateway refuses a change that contains something that its {@link Hook} does not declare.
 * The limits of the policy API hold for entries, keys and values.
 */
public final class PodChange {
  private static final PodChange NONE =
      new PodChange(io.extendergateway.policy.v1beta1.PodChange.getDefaultInstance());

  final io.extendergateway.policy.v1beta1.PodChange message;

  PodChange(io.extendergateway.policy.v1beta1.PodChange message) {
    this.message = message;
  }

  private static PodChange of(io.extendergateway.policy.v1beta1.PodChange.Builder changed) {
    return new PodChange(changed.build());
  }

  /** The pod stays as it is. */
  public static PodChange none() {
    return NONE;
  }

  /** Adds or replaces a label. */
  public PodChange setLabel(String key, String value) {
    return of(message.toBuilder().putSetLabels(key, value));
  }

  /** Removes a label. One that the pod does not have is ignored. */
  public PodChange removeLabel(String key) {
    return of(message.toBuilder().addRemoveLabels(key));
  }

  /** Adds or replaces an annotation. */
  public PodChange setAnnotation(String key, String value) {
    return of(message.toBuilder().putSetAnnotations(key, value));
  }

  /** Removes an annotation. One that the pod does not have is ignored. */
  public PodChange removeAnnotation(String key) {
    return of(message.toBuilder().addRemoveAnnotations(key));
  }

  /** Adds or replaces an entry of spec.nodeSelector. */
  public PodChange setNodeSelector(String key, String value) {
    return of(message.toBuilder().putSetNodeSelector(key, value));
  }

  /** Removes an entry of spec.nodeSelector. One that the pod does not have is ignored. */
  public PodChange removeNodeSelector(String key) {
    return of(message.toBuilder().addRemoveNodeSelector(key));
  }

  /** Replaces spec.affinity.nodeAffinity. */
  public PodChange setNodeAffinity(NodeAffinity affinity) {
    return of(message.toBuilder().clearRemoveNodeAffinity().setNodeAffinity(affinity));
  }

  /** Removes spec.affinity.nodeAffinity. */
  public PodChange removeNodeAffinity() {
    return of(message.toBuilder().clearNodeAffinity().setRemoveNodeAffinity(true));
  }

  /** Replaces spec.affinity.podAffinity and podAntiAffinity; without terms, the pod has none. */
  public PodChange podAffinity(PodAffinity affinity) {
    return of(message.toBuilder().setPodAffinity(affinity));
  }

  /** Replaces spec.topologySpreadConstraints; without constraints, the pod has none. */
  public PodChange topologySpread(TopologySpreadConstraint... constraints) {
    TopologySpread all =
        TopologySpread.newBuilder().addAllConstraints(List.of(constraints)).build();
    return of(message.toBuilder().setTopologySpread(all));
  }

  /** Adds a toleration behind the pod's. */
  public PodChange addToleration(Toleration toleration) {
    return of(message.toBuilder().addAddTolerations(toleration));
  }

  /** Removes the tolerations that are equal to this one in all fields. */
  public PodChange removeToleration(Toleration toleration) {
    return of(message.toBuilder().addRemoveTolerations(toleration));
  }

  /**
   * Adds to the pod's requests. Amounts may be negative; a sum is at least 0. Repeated, all amounts
   * are added.
   */
  public PodChange addRequests(Resources amounts) {
    return of(message.toBuilder().setAddRequests(Amounts.sum(message.getAddRequests(), amounts)));
  }

  /**
   * Why, for people: {@code explain} and the gateway's decision log show at most 200 bytes of it.
   */
  public PodChange reason(String text) {
    return of(message.toBuilder().setReason(Objects.requireNonNull(text, "text")));
  }

  /** What it changes; nothing if it has a reason alone. */
  Set<ChangedPart> parts() {
    Set<ChangedPart> parts = EnumSet.noneOf(ChangedPart.class);
    if (message.getSetLabelsCount() + message.getRemoveLabelsCount() > 0) {
      parts.add(ChangedPart.POD_LABELS);
    }
    if (message.getSetAnnotationsCount() + message.getRemoveAnnotationsCount() > 0) {
      parts.add(ChangedPart.POD_ANNOTATIONS);
    }
    if (message.getSetNodeSelectorCount() + message.getRemoveNodeSelectorCount() > 0) {
      parts.add(ChangedPart.POD_NODE_SELECTOR);
    }
    if (message.hasNodeAffinity() || message.getRemoveNodeAffinity()) {
      parts.add(ChangedPart.POD_NODE_AFFINITY);
    }
    if (message.hasPodAffinity()) {
      parts.add(ChangedPart.POD_AFFINITY);
    }
    if (message.hasTopologySpread()) {
      parts.add(ChangedPart.POD_TOPOLOGY_SPREAD);
    }
    if (message.getAddTolerationsCount() + message.getRemoveTolerationsCount() > 0) {
      parts.add(ChangedPart.POD_TOLERATIONS);
    }
    if (message.hasAddRequests()) {
      parts.add(ChangedPart.POD_REQUESTS);
    }
    return parts;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PodChange that && message.equals(that.message);
  }

  @Override
  public int hashCode() {
    return message.hashCode();
  }

  @Override
  public String toString() {
    return "PodChange(" + message.toString().trim() + ")";
  }
}
