package io.extendergateway.policy;

/**
 * How raw scores are normalized to 0 to 10, over the nodes of one prioritize call. The operator may
 * override it.
 */
public enum Normalization {
  /** Unchanged: the operator's weight multiplies the raw score. */
  NONE(io.extendergateway.policy.v1beta1.Normalization.NORMALIZATION_NONE),
  /**
   * 10 · (s − least of the scale) / (largest − least of the scale). Needs {@link Scale#between}.
   */
  RANGE(io.extendergateway.policy.v1beta1.Normalization.NORMALIZATION_RANGE),
  /** 10 · s / the largest of the call; 0 when that is not positive. */
  MAX(io.extendergateway.policy.v1beta1.Normalization.NORMALIZATION_MAX),
  /** 10 · (s − least of the call) / (largest − least of the call); 0 when they are equal. */
  MIN_MAX(io.extendergateway.policy.v1beta1.Normalization.NORMALIZATION_MIN_MAX);

  final io.extendergateway.policy.v1beta1.Normalization message;

  Normalization(io.extendergateway.policy.v1beta1.Normalization message) {
    this.message = message;
  }
}
