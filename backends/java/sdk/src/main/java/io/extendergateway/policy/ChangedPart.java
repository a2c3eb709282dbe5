package io.extendergateway.policy;

/** A part of the pod or of nodes that a {@link Hook} changes. */
public enum ChangedPart {
  /** {@link PodChange#setLabel}, {@link PodChange#removeLabel}. */
  POD_LABELS(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_POD_LABELS),
  /** {@link PodChange#setNodeSelector}, {@link PodChange#removeNodeSelector}. */
  POD_NODE_SELECTOR(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_POD_NODE_SELECTOR),
  /** {@link PodChange#setNodeAffinity}, {@link PodChange#removeNodeAffinity}. */
  POD_NODE_AFFINITY(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_POD_NODE_AFFINITY),
  /** {@link PodChange#addToleration}, {@link PodChange#removeToleration}. */
  POD_TOLERATIONS(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_POD_TOLERATIONS),
  /** {@link PodChange#addRequests}. */
  POD_REQUESTS(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_POD_REQUESTS),
  /** {@link NodeChange#setLabel}, {@link NodeChange#removeLabel}. */
  NODE_LABELS(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_NODE_LABELS),
  /** {@link NodeChange#addTaint}, {@link NodeChange#removeTaint}. */
  NODE_TAINTS(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_NODE_TAINTS),
  /** {@link NodeChange#addAllocatable}. */
  NODE_ALLOCATABLE(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_NODE_ALLOCATABLE),
  /** {@link NodeChange#addUsage}, {@link NodeChange#hold}. */
  NODE_USAGE(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_NODE_USAGE),
  /** {@link PodChange#setAnnotation}, {@link PodChange#removeAnnotation}. */
  POD_ANNOTATIONS(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_POD_ANNOTATIONS),
  /** {@link PodChange#podAffinity}. */
  POD_AFFINITY(io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_POD_AFFINITY),
  /** {@link PodChange#topologySpread}. */
  POD_TOPOLOGY_SPREAD(
      io.extendergateway.policy.v1beta1.ChangedPart.CHANGED_PART_POD_TOPOLOGY_SPREAD);

  final io.extendergateway.policy.v1beta1.ChangedPart message;

  ChangedPart(io.extendergateway.policy.v1beta1.ChangedPart message) {
    this.message = message;
  }
}
