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
  ALLOCATABLE(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_ALLOCATABLE_VALUE),
  /**
   * {@link Node#usage}. Needs a gateway that watches pods. In a {@linkplain Verb#pure pure} verb
   * the answer for a node is cached until a pod is added to the node or removed from it.
   */
  USAGE(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_USAGE_VALUE),
  /**
   * {@link Node#rawJson} and {@link Node#raw}: several kilobytes per node. Not for a {@linkplain
   * Verb#pure pure} verb.
   */
  RAW_JSON(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_RAW_JSON_VALUE),
  /**
   * {@link Node#images}. The gateway keeps the JSON of nodes for this, as for {@link #RAW_JSON}.
   */
  IMAGES(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_IMAGES_VALUE),
  /** {@link Node#systemInfo}. */
  SYSTEM_INFO(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_SYSTEM_INFO_VALUE),
  /** {@link Node#addresses}. */
  ADDRESSES(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_ADDRESSES_VALUE),
  /** {@link Node#providerId}. */
  PROVIDER_ID(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_PROVIDER_ID_VALUE),
  /**
   * {@link Node#nominated}. Needs a gateway that watches pods. In a {@linkplain Verb#pure pure}
   * verb the answer for a node is cached until a pod is nominated to the node, or no longer.
   */
  NOMINATED(io.extendergateway.policy.v1beta1.NodePart.NODE_PART_NOMINATED_VALUE);

  /** Those that are read with everything. */
  static final int FACTS_AND_NAME =
      Part.all(values()) & ~Part.all(USAGE, NOMINATED, IMAGES, RAW_JSON);

  private final int number;

  NodePart(int number) {
    this.number = number;
  }

  @Override
  public int number() {
    return number;
  }
}
