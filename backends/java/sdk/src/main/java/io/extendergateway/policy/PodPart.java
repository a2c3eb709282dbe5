package io.extendergateway.policy;

/** A part of a pod besides labels and annotations. */
public enum PodPart implements Part {
  /**
   * {@link Pod#name}, {@link Pod#uid}, {@link Pod#created}, and the claims whose name is derived
   * from the pod's. Not for a {@linkplain Verb#pure pure} verb.
   */
  IDENTITY(io.extendergateway.policy.v1beta1.PodPart.POD_PART_IDENTITY_VALUE),
  /** {@link Pod#namespace}. */
  NAMESPACE(io.extendergateway.policy.v1beta1.PodPart.POD_PART_NAMESPACE_VALUE),
  /** {@link Pod#owner}. */
  OWNER(io.extendergateway.policy.v1beta1.PodPart.POD_PART_OWNER_VALUE),
  /** {@link Pod#priority}. */
  PRIORITY(io.extendergateway.policy.v1beta1.PodPart.POD_PART_PRIORITY_VALUE),
  /** {@link Pod#priorityClass}. */
  PRIORITY_CLASS(io.extendergateway.policy.v1beta1.PodPart.POD_PART_PRIORITY_CLASS_NAME_VALUE),
  /** {@link Pod#requests}. */
  REQUESTS(io.extendergateway.policy.v1beta1.PodPart.POD_PART_REQUESTS_VALUE),
  /** {@link Pod#nonzeroRequests}. */
  NONZERO_REQUESTS(io.extendergateway.policy.v1beta1.PodPart.POD_PART_NONZERO_REQUESTS_VALUE),
  /** {@link Pod#tolerations} and {@link Pod#tolerates}. */
  TOLERATIONS(io.extendergateway.policy.v1beta1.PodPart.POD_PART_TOLERATIONS_VALUE),
  /** {@link Pod#nodeSelector}. */
  NODE_SELECTOR(io.extendergateway.policy.v1beta1.PodPart.POD_PART_NODE_SELECTOR_VALUE),
  /** {@link Pod#nodeAffinity}. */
  NODE_AFFINITY(io.extendergateway.policy.v1beta1.PodPart.POD_PART_NODE_AFFINITY_VALUE),
  /** {@link Pod#volumes} and, with {@link #IDENTITY}, {@link Pod#claims}. */
  VOLUMES(io.extendergateway.policy.v1beta1.PodPart.POD_PART_VOLUMES_VALUE),
  /** {@link Pod#schedulerName}. */
  SCHEDULER_NAME(io.extendergateway.policy.v1beta1.PodPart.POD_PART_SCHEDULER_NAME_VALUE),
  /**
   * {@link Pod#rawJson} and {@link Pod#raw}, for fields that the other parts do not have. Not for a
   * {@linkplain Verb#pure pure} verb.
   */
  RAW_JSON(io.extendergateway.policy.v1beta1.PodPart.POD_PART_RAW_JSON_VALUE),
  /** {@link Pod#containers}. */
  CONTAINERS(io.extendergateway.policy.v1beta1.PodPart.POD_PART_CONTAINERS_VALUE),
  /** {@link Pod#podAffinity}. */
  POD_AFFINITY(io.extendergateway.policy.v1beta1.PodPart.POD_PART_POD_AFFINITY_VALUE),
  /** {@link Pod#topologySpread}. */
  TOPOLOGY_SPREAD(io.extendergateway.policy.v1beta1.PodPart.POD_PART_TOPOLOGY_SPREAD_VALUE),
  /** {@link Pod#resourceClaims}. */
  RESOURCE_CLAIMS(io.extendergateway.policy.v1beta1.PodPart.POD_PART_RESOURCE_CLAIMS_VALUE),
  /** {@link Pod#podGroup}. */
  POD_GROUP(io.extendergateway.policy.v1beta1.PodPart.POD_PART_POD_GROUP_NAME_VALUE),
  /** {@link Pod#runtimeClass}. */
  RUNTIME_CLASS(io.extendergateway.policy.v1beta1.PodPart.POD_PART_RUNTIME_CLASS_NAME_VALUE),
  /** {@link Pod#preemptionPolicy}. */
  PREEMPTION_POLICY(io.extendergateway.policy.v1beta1.PodPart.POD_PART_PREEMPTION_POLICY_VALUE),
  /** {@link Pod#serviceAccount}. */
  SERVICE_ACCOUNT(io.extendergateway.policy.v1beta1.PodPart.POD_PART_SERVICE_ACCOUNT_NAME_VALUE);

  /** Those that are read with everything. */
  static final int FACTS = Part.all(values()) & ~Part.all(IDENTITY, RAW_JSON);

  private final int number;

  PodPart(int number) {
    this.number = number;
  }

  @Override
  public int number() {
    return number;
  }
}
