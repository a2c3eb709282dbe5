package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.NodeView;

/** A policy's view of each node. Each view adds to the one before. */
public enum View {
  /** The name alone: works where the gateway knows no nodes. */
  NAME(NodeView.NODE_VIEW_NAME),
  /** Name, labels, taints, conditions, capacity, allocatable and the annotations asked for. */
  FACTS(NodeView.NODE_VIEW_FACTS),
  /** All that and the object's JSON: several kilobytes per node. */
  FACTS_AND_RAW(NodeView.NODE_VIEW_FACTS_AND_RAW);

  final NodeView message;

  View(NodeView message) {
    this.message = message;
  }

  boolean hasFacts() {
    return this != NAME;
  }

  /** Whether rows of this view hold everything that the other one needs. */
  boolean covers(View wanted) {
    return compareTo(wanted) >= 0;
  }
}
