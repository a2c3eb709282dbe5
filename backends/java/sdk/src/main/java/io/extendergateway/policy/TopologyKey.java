package io.extendergateway.policy;

/**
 * A declared count of the pods in the cluster, from {@link Reads#podsByTopology} or {@link
 * Reads#podsAndRequestsByTopology}: what {@link Pod#podsLike} reads with.
 */
public final class TopologyKey {
  final Topology topology;

  /**
   * By what the pods are counted, and the key of the label of nodes; empty for the whole cluster.
   */
  record Topology(PodsBy by, String key) implements Comparable<Topology> {
    @Override
    public int compareTo(Topology other) {
      int order = by.compareTo(other.by);
      return order != 0 ? order : Utf8.compare(key, other.key);
    }

    /** As a policy writes the arguments; long keys are cut. */
    @Override
    public String toString() {
      return by + ", \"" + Utf8.cut(key, 64) + "\"";
    }
  }

  TopologyKey(Topology topology) {
    this.topology = topology;
  }

  @Override
  public String toString() {
    return topology.toString();
  }
}
