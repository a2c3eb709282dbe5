package io.extendergateway.policy;

/** A part of a node besides labels and annotations. */
public enum NodePart implements Part {
  /** {@link Node#name}. */
  NAME(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_NAME_VALUE),
  /** {@link Node#taints}. */
  TAINTS(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_TAINTS_VALUE),
  /** {@link Node#isUnschedulable}. */
  UNSCHEDULABLE(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_UNSCHEDULABLE_VALUE),
  /** {@link Node#condition}. */
  CONDITIONS(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_CONDITIONS_VALUE),
  /** {@link Node#capacity}. */
  CAPACITY(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_CAPACITY_VALUE),
  /** {@link Node#allocatable}. */
  ALLOCATABLE(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_ALLOCATABLE_VALUE);

  private final int number;

  NodePart(int number) {
    this.number = number;
  }

  @Override
  public int number() {
    return number;
  }
}
