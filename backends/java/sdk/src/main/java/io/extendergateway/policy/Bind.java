package io.extendergateway.policy;

import java.util.Objects;

/** How a bind ended. A bind that failed is a {@link BindFailedException}. */
public final class Bind {
  private static final Bind BOUND = new Bind(null);

  /** {@code null}: bound. */
  private final String declined;

  private Bind(String declined) {
    this.declined = declined;
  }

  /**
   * The Binding exists: this pod, this node. Also if it existed before.
   *
   * @return the outcome
   */
  public static Bind bound() {
    return BOUND;
  }

  /**
   * The policy does not bind this pod, and has not tried to. The next binder is called.
   *
   * @param why for people; at most 1024 bytes are sent
   * @return the outcome
   */
  public static Bind declined(String why) {
    return new Bind(Objects.requireNonNull(why, "why"));
  }

  /**
   * Whether the pod is bound.
   *
   * @return false if the policy declined
   */
  public boolean isBound() {
    return declined == null;
  }

  /**
   * Why the policy declined.
   *
   * @return the text; empty for a pod that is bound
   */
  public String why() {
    return declined == null ? "" : declined;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Bind that && Objects.equals(declined, that.declined);
  }

  @Override
  public int hashCode() {
    return Objects.hashCode(declined);
  }

  @Override
  public String toString() {
    return declined == null ? "bound" : "declined(" + declined + ")";
  }
}
