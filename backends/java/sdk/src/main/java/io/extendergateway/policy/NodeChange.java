package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.Hold;
import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Taint;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;

/**
 * What a hook changes about a node that the backends of a call are told about. Immutable: each
 * method returns a new change. What is removed is removed before something is added. A change that
 * does not depend on the call is best a constant: nodes that change alike are sent together.
 *
 * <p>The gateway refuses a change that contains something that its {@link Hook} does not declare.
 * The limits of the policy API hold for entries, keys and values.
 */
public final class NodeChange {
  private static final NodeChange NONE =
      new NodeChange(io.extendergateway.policy.v1beta1.NodeChange.getDefaultInstance());

  /** Without positions. */
  final io.extendergateway.policy.v1beta1.NodeChange message;

  NodeChange(io.extendergateway.policy.v1beta1.NodeChange message) {
    this.message = message;
  }

  private static NodeChange of(io.extendergateway.policy.v1beta1.NodeChange.Builder changed) {
    return new NodeChange(changed.build());
  }

  /** The node stays as it is. */
  public static NodeChange none() {
    return NONE;
  }

  /** Adds or replaces a label. */
  public NodeChange setLabel(String key, String value) {
    return of(message.toBuilder().putSetLabels(key, value));
  }

  /** Removes a label. One that the node does not have is ignored. */
  public NodeChange removeLabel(String key) {
    return of(message.toBuilder().addRemoveLabels(key));
  }

  /** Adds a taint, with an effect, behind the node's. */
  public NodeChange addTaint(Taint taint) {
    return of(message.toBuilder().addAddTaints(taint));
  }

  /** Removes the taints with this key and, unless they are empty, this value and this effect. */
  public NodeChange removeTaint(Taint taint) {
    return of(message.toBuilder().addRemoveTaints(taint));
  }

  /**
   * Adds to status.allocatable, if the node reports it. Amounts may be negative; a sum is at least
   * 0. Repeated, all amounts are added.
   */
  public NodeChange addAllocatable(Resources amounts) {
    return of(
        message.toBuilder().setAddAllocatable(Amounts.sum(message.getAddAllocatable(), amounts)));
  }

  /**
   * Adds to what the pods on the node have requested, where that is told. Amounts may be negative;
   * a sum is at least 0. Repeated, all amounts are added.
   */
  public NodeChange addUsage(NodeUsage amounts) {
    return of(message.toBuilder().setAddUsage(Amounts.sum(message.getAddUsage(), amounts)));
  }

  /**
   * Keeps room for pods: the gateway adds to the usage what its users do not use of it on the node,
   * with the usage of which it tells. When a user ends, its usage goes and what is kept for the
   * next one comes at the same time. Repeated, each keeps its own.
   *
   * @param hold what is kept, none of it negative, and its users; leave out users that are beyond
   *     the limits of the policy API, and more is kept
   */
  public NodeChange hold(Hold hold) {
    return of(message.toBuilder().addHolds(hold));
  }

  /**
   * Why, for people: {@code explain} and the gateway's decision log show it. It should be a
   * constant text, because nodes with different reasons are not sent together.
   *
   * @param text the reason; at most 200 bytes are sent
   */
  public NodeChange reason(String text) {
    return of(message.toBuilder().setReason(Objects.requireNonNull(text, "text")));
  }

  /** What it changes; nothing if it has a reason alone. */
  Set<ChangedPart> parts() {
    Set<ChangedPart> parts = EnumSet.noneOf(ChangedPart.class);
    if (message.getSetLabelsCount() + message.getRemoveLabelsCount() > 0) {
      parts.add(ChangedPart.NODE_LABELS);
    }
    if (message.getAddTaintsCount() + message.getRemoveTaintsCount() > 0) {
      parts.add(ChangedPart.NODE_TAINTS);
    }
    if (message.hasAddAllocatable()) {
      parts.add(ChangedPart.NODE_ALLOCATABLE);
    }
    if (message.hasAddUsage() || message.getHoldsCount() > 0) {
      parts.add(ChangedPart.NODE_USAGE);
    }
    return parts;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof NodeChange that && message.equals(that.message);
  }

  @Override
  public int hashCode() {
    return message.hashCode();
  }

  @Override
  public String toString() {
    return "NodeChange(" + message.toString().trim() + ")";
  }
}
