package io.extendergateway.policy;

import java.util.List;

/**
 * What {@link Policy#beforeScore} changes.
 *
 * @param pod the change of the pod
 * @param nodes one change for each node of the call, in their order
 */
public record Changes(PodChange pod, List<NodeChange> nodes) {}
