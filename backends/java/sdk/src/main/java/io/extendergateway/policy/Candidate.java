package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.Call;
import java.util.List;

/** The evictions that would make room for the pod on one node. */
public final class Candidate {
  private final Node node;
  private final List<Victim> victims;
  private final int pdbViolations;

  Candidate(
      Node node, io.extendergateway.policy.v1beta1.Candidate message, Access access, Call call) {
    this.node = node;
    victims =
        message.getVictimsList().stream().map(victim -> new Victim(victim, access, call)).toList();
    pdbViolations = message.getPdbViolations();
  }

  /** The node. */
  public Node node() {
    return node;
  }

  /**
   * The pods that would be evicted, in kube-scheduler's order: the most important pod first. None
   * if the pod fits on the node without evictions for all but an extender: Eviction.all() leaves
   * the node to the next policy.
   */
  public List<Victim> victims() {
    return victims;
  }

  /** How many of the evictions would violate a PodDisruptionBudget. */
  public long pdbViolations() {
    return Integer.toUnsignedLong(pdbViolations);
  }
}
