package io.extendergateway.policy;

import java.util.Optional;

/**
 * How many pods on a node, or in a domain of the cluster, are like a pod. Of a node with pods of
 * very many owners, or very many values of a label, the gateway leaves out some counts, and so it
 * does of very many domains; the number is then known only within bounds. A limit takes {@link
 * #atMost}, a requirement takes {@link #atLeast}: neither then takes an unknown number for 0.
 */
public final class PodsLike {
  /** {@code null} if it is left out. */
  private final PodCount counted;

  private final long omitted;

  private PodsLike(PodCount counted, long omitted) {
    this.counted = counted;
    this.omitted = omitted;
  }

  static PodsLike counted(PodCount count) {
    return new PodsLike(count, 0);
  }

  static PodsLike upTo(long pods) {
    return new PodsLike(null, pods);
  }

  /** The most pods that there can be, with those that are being deleted. */
  public long atMost() {
    return counted == null ? omitted : counted.pods();
  }

  /** The fewest pods that there can be, with those that are being deleted. */
  public long atLeast() {
    return counted == null ? 0 : counted.pods();
  }

  /** The count, possibly of no pods; empty if it is left out. */
  public Optional<PodCount> count() {
    return Optional.ofNullable(counted);
  }
}
