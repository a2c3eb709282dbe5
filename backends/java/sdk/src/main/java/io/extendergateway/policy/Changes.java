package io.extendergateway.policy;

import java.util.List;

/** What {@link Policy#beforeScore} changes. */
public record Changes(PodChange pod, List<NodeChange> nodes) {}
