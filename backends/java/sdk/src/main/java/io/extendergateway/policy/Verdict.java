package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.RejectionKind;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/**
 * A policy's verdict on one node: may the pod run there? Immutable. A verdict that does not depend
 * on the call is best a constant.
 */
public final class Verdict {
  private static final Verdict ACCEPT = new Verdict(null, "", false, null);

  /** Of an unsigned number of 32 bits. */
  private static final long MOST_SECONDS = 0xFFFF_FFFFL;

  /** {@code null}: accepted. */
  private final String reason;

  private final String rule;
  private final boolean isUnresolvable;

  /** Unsigned; {@code null}: not known. */
  private final Integer retryAfterSeconds;

  private Verdict(String reason, String rule, boolean isUnresolvable, Integer retryAfterSeconds) {
    this.reason = reason;
    this.rule = rule;
    this.isUnresolvable = isUnresolvable;
    this.retryAfterSeconds = retryAfterSeconds;
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
    return new Verdict(Objects.requireNonNull(reason, "reason"), "", false, null);
  }

  /**
   * Names the rule of the policy that rejects, as its author or operator calls it: {@code explain}
   * and the gateway's decision log show it, the pod's condition does not. At most 63 bytes are
   * sent. An accepted node stays accepted.
   */
  public Verdict byRule(String name) {
    Objects.requireNonNull(name, "name");
    return reason == null ? this : new Verdict(reason, name, isUnresolvable, retryAfterSeconds);
  }

  /**
   * Declares that no eviction on this node could change the verdict, as with every property of the
   * node, such as its labels: kube-scheduler then tries none there. Otherwise it may evict pods, if
   * the operator allows that. An accepted node stays accepted.
   */
  public Verdict unresolvable() {
    return reason == null ? this : new Verdict(reason, rule, true, retryAfterSeconds);
  }

  /**
   * Says after how long at the earliest the verdict can be another one if nothing but time passes,
   * such as until a maintenance ends. A hint for people: {@code explain} and the gateway's decision
   * log show it, and nobody waits for it. Sent in whole seconds, rounded up, of at most 32 bits;
   * nodes with different hints are not sent together. An accepted node stays accepted.
   *
   * @param wait how long from now; one that is negative counts as none
   */
  public Verdict retryAfter(Duration wait) {
    long whole = Math.min(MOST_SECONDS, wait.getSeconds()) + (wait.getNano() > 0 ? 1 : 0);
    int seconds = (int) Math.max(0, Math.min(MOST_SECONDS, whole));
    return reason == null ? this : new Verdict(reason, rule, isUnresolvable, seconds);
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

  /** Unsigned. */
  Optional<Integer> retryAfterSeconds() {
    return Optional.ofNullable(retryAfterSeconds);
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
        && isUnresolvable == that.isUnresolvable
        && Objects.equals(retryAfterSeconds, that.retryAfterSeconds);
  }

  @Override
  public int hashCode() {
    return 31 * Objects.hashCode(reason)
        + rule.hashCode()
        + (isUnresolvable ? 1 : 0)
        + Objects.hashCode(retryAfterSeconds);
  }

  @Override
  public String toString() {
    if (reason == null) {
      return "accept";
    }
    return "reject("
        + reason
        + (rule.isEmpty() ? "" : ", rule " + rule)
        + (isUnresolvable ? ", unresolvable" : "")
        + retryAfterSeconds()
            .map(seconds -> ", retry after " + Integer.toUnsignedString(seconds) + " s")
            .orElse("")
        + ")";
  }
}
