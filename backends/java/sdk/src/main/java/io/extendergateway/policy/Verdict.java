package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.RejectionKind;
import java.util.Objects;

/**
 * A policy's verdict on one node: may the pod run there? Immutable. A verdict that does not depend
 * on the call is best a constant.
 */
public final class Verdict {
  private static final Verdict ACCEPT = new Verdict(null, "", false);

  /** {@code null}: accepted. */
  private final String reason;

  private final String rule;
  private final boolean isUnresolvable;

  private Verdict(String reason, String rule, boolean isUnresolvable) {
    this.reason = reason;
    this.rule = rule;
    this.isUnresolvable = isUnresolvable;
  }

  /** The pod may run there, as far as this policy is concerned. */
  public static Verdict accept() {
    return ACCEPT;
  }

  /**
   * The pod may not run there. Evicting pods from the node could change that, unless the verdict is
   * {@link #unresolvable}.
   *
   * <p>The reason, a constant text, is for people: it appears in the pod's PodScheduled condition.
   * It must depend on the verdict alone. A text that differs from one attempt to the next (a time,
   * a free amount) makes kube-scheduler retry the pod without end. An empty reason becomes
   * "rejected".
   */
  public static Verdict reject(String reason) {
    return new Verdict(Objects.requireNonNull(reason, "reason"), "", false);
  }

  /**
   * Names the rule of the policy that rejects, as its author or operator calls it: {@code explain}
   * and the gateway's decision log show it, the pod's condition does not. At most 63 bytes are
   * sent. An accepted node stays accepted.
   */
  public Verdict byRule(String name) {
    return reason == null
        ? this
        : new Verdict(reason, Objects.requireNonNull(name, "name"), isUnresolvable);
  }

  /**
   * Declares that no eviction on this node could change the verdict, as with every property of the
   * node, such as its labels: kube-scheduler then tries none there. Otherwise it may evict pods, if
   * the operator allows that. An accepted node stays accepted.
   */
  public Verdict unresolvable() {
    return reason == null ? this : new Verdict(reason, rule, true);
  }

  /** Whether the pod may run there. */
  public boolean isAccepted() {
    return reason == null;
  }

  /** The reason of a rejection; empty for an accepted node. */
  public String reason() {
    return reason == null ? "" : reason;
  }

  String rule() {
    return rule;
  }

  /** What a rejection means for preemption. */
  RejectionKind kind() {
    return isUnresolvable
        ? RejectionKind.REJECTION_KIND_UNRESOLVABLE
        : RejectionKind.REJECTION_KIND_UNSCHEDULABLE;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Verdict that
        && Objects.equals(reason, that.reason)
        && rule.equals(that.rule)
        && isUnresolvable == that.isUnresolvable;
  }

  @Override
  public int hashCode() {
    return 31 * Objects.hashCode(reason) + rule.hashCode() + (isUnresolvable ? 1 : 0);
  }

  @Override
  public String toString() {
    if (reason == null) {
      return "accept";
    }
    return "reject("
        + reason
        + (rule.isEmpty() ? "" : ", rule " + rule)
        + (isUnresolvable ? ", unresolvable)" : ")");
  }
}
