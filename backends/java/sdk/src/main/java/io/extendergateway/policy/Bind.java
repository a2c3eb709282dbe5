package io.extendergateway.policy;

import java.util.Objects;

/** How a bind ended. A bind whose end is not known is a {@link BindFailedException}. */
public final class Bind {
  private enum Outcome {
    BOUND,
    DECLINED,
    NOT_BOUND
  }

  private static final Bind BOUND = new Bind(Outcome.BOUND, "");

  private final Outcome outcome;
  private final String why;

  private Bind(Outcome outcome, String why) {
    this.outcome = outcome;
    this.why = Objects.requireNonNull(why, "why");
  }

  /** The Binding exists: this pod, this node. Also if it existed before. */
  public static Bind bound() {
    return BOUND;
  }

  /**
   * The policy does not bind this pod, and has not tried to. The next binder is called. At most
   * 1024 bytes of the text are sent.
   */
  public static Bind declined(String why) {
    return new Bind(Outcome.DECLINED, why);
  }

  /**
   * The policy binds this pod, and has not: it is certain that this call made no Binding and that
   * none will come, because none was requested, or the apiserver refused it. A failure as {@link
   * BindFailedException} is, after which the pod does not count on the node.
   *
   * @param why for people; at most 1024 bytes are sent
   */
  public static Bind notBound(String why) {
    return new Bind(Outcome.NOT_BOUND, why);
  }

  /** Whether the pod is bound. */
  public boolean isBound() {
    return outcome == Outcome.BOUND;
  }

  /** Whether the policy declined: it does not bind the pod, and has not tried to. */
  public boolean isDeclined() {
    return outcome == Outcome.DECLINED;
  }

  /** Why the policy declined or has not bound the pod; empty for a pod that is bound. */
  public String why() {
    return why;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Bind that && outcome == that.outcome && why.equals(that.why);
  }

  @Override
  public int hashCode() {
    return Objects.hash(outcome, why);
  }

  @Override
  public String toString() {
    return switch (outcome) {
      case BOUND -> "bound";
      case DECLINED -> "declined(" + why + ")";
      case NOT_BOUND -> "notBound(" + why + ")";
    };
  }
}
