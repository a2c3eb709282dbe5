package io.extendergateway.policy;

/**
 * What the policy's scores mean, but for {@link Policy#NO_OPINION}. Immutable: each method returns
 * a new scale.
 */
public final class Scale {
  /** {@code null}: unbounded. */
  final Bounds bounds;

  final Normalization normalization;
  final boolean isReversed;

  record Bounds(int least, int largest) {}

  private Scale(Bounds bounds, Normalization normalization, boolean isReversed) {
    this.bounds = bounds;
    this.normalization = normalization;
    this.isReversed = isReversed;
  }

  /**
   * Scores from the least to the largest, both included. The gateway clamps scores outside this
   * range, and counts them.
   *
   * @throws DeclarationException if the least score is larger than the largest
   */
  public static Scale between(int least, int largest) {
    if (least > largest) {
      throw new DeclarationException(
          "Scale.between(%d, %d): the least score is larger than the largest"
              .formatted(least, largest));
    }
    return new Scale(new Bounds(least, largest), Normalization.NONE, false);
  }

  /** Any scores. */
  public static Scale unbounded() {
    return new Scale(null, Normalization.NONE, false);
  }

  /** How raw scores become 0 to 10. Default: {@link Normalization#NONE}. */
  public Scale normalize(Normalization how) {
    return new Scale(bounds, how, isReversed);
  }

  /** The least raw score is the best. Only with a normalization. */
  public Scale reversed() {
    return new Scale(bounds, normalization, true);
  }
}
