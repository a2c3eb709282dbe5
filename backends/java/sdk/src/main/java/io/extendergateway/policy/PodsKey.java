package io.extendergateway.policy;

/**
 * A declared count of the pods on each node, from {@link Reads#podsBy} or {@link
 * Reads#podsAndRequestsBy}: what {@link Node#podsLike} and {@link Node#podCounts} read with.
 */
public final class PodsKey {
  final PodsBy by;

  PodsKey(PodsBy by) {
    this.by = by;
  }

  @Override
  public String toString() {
    return by.toString();
  }
}
