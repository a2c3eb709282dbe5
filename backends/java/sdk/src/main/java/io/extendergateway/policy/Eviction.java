package io.extendergateway.policy;

import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.IntStream;

/** A policy's answer about one candidate. Immutable. */
public final class Eviction {
  private static final Eviction ALL = new Eviction(Kind.ALL, new int[0]);
  private static final Eviction SPARE = new Eviction(Kind.SPARE, new int[0]);

  final Kind kind;
  private final int[] victims;

  enum Kind {
    ALL,
    ONLY,
    SPARE
  }

  private Eviction(Kind kind, int[] victims) {
    this.kind = kind;
    this.victims = victims;
  }

  /** Evict the victims as they are, if this node is taken. */
  public static Eviction all() {
    return ALL;
  }

  /**
   * Evict these, by their positions among the victims from 0, each once and at least one. Nothing
   * checks afterwards whether the pod fits when the others stay.
   */
  public static Eviction only(int... positions) {
    return new Eviction(Kind.ONLY, positions.clone());
  }

  /** Evict no pod here: the node is no longer a candidate. */
  public static Eviction spare() {
    return SPARE;
  }

  /** Evicts the victims for which {@code evict} returns true; {@link #spare} if there are none. */
  public static Eviction of(Candidate candidate, Predicate<Victim> evict) {
    List<Victim> victims = candidate.victims();
    int[] chosen =
        IntStream.range(0, victims.size()).filter(at -> evict.test(victims.get(at))).toArray();
    if (chosen.length == victims.size()) {
      return ALL;
    }
    return chosen.length == 0 ? SPARE : new Eviction(Kind.ONLY, chosen);
  }

  int[] victims() {
    return victims.clone();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Eviction that
        && kind == that.kind
        && Arrays.equals(victims, that.victims);
  }

  @Override
  public int hashCode() {
    return 31 * kind.hashCode() + Arrays.hashCode(victims);
  }

  @Override
  public String toString() {
    return switch (kind) {
      case ALL -> "all";
      case SPARE -> "spare";
      case ONLY -> "only" + Arrays.toString(victims);
    };
  }
}
