package io.extendergateway.policy;

/**
 * How a verb is called, and what it reads. The default: each node on its own, again for each call,
 * and nothing is read. Immutable: each method returns a new verb.
 */
public final class Verb {
  final boolean isWholeSet;
  final boolean hasSideEffects;
  final boolean isPure;
  final Reads reads;

  private Verb(boolean isWholeSet, boolean hasSideEffects, boolean isPure, Reads reads) {
    this.isWholeSet = isWholeSet;
    this.hasSideEffects = hasSideEffects;
    this.isPure = isPure;
    this.reads = reads;
  }

  /** The answer about a node depends on the pod and that node alone. */
  public static Verb perNode() {
    return new Verb(false, false, false, new Reads());
  }

  /**
   * The answer depends on all nodes of the request ("at most three of them"): the policy is called
   * after those before it, with the nodes that they left. Costs a separate round for each pod.
   */
  public static Verb wholeSet() {
    return perNode().inWholeSet();
  }

  Verb inWholeSet() {
    return new Verb(true, hasSideEffects, isPure, reads);
  }

  /**
   * The answer for a node is a function of args, the pod's facts and that node: it may be cached.
   * By far the fastest. Not with {@link #wholeSet} or {@link #sideEffects}, and not for a verb that
   * reads {@link PodPart#IDENTITY} or JSON; not for a policy that uses the time, or anything
   * outside that its revision does not name.
   */
  public Verb pure() {
    return new Verb(isWholeSet, hasSideEffects, true, reads);
  }

  /**
   * What the verb reads of pods and nodes: this is sent, and nothing else can be read. Default:
   * nothing. Scores come in one round with the verdicts only if both verbs read the same.
   *
   * @param declared the declaration; later changes of it have no effect
   */
  public Verb reads(Reads declared) {
    return new Verb(isWholeSet, hasSideEffects, isPure, declared.copy());
  }

  /**
   * A call changes something outside (a reservation, a quota): the policy is called in turn, only
   * with the nodes that really remain, and only when kube-scheduler is deciding. Calls for any
   * other purpose are rejected before they reach the policy.
   */
  public Verb sideEffects() {
    return new Verb(isWholeSet, true, isPure, reads);
  }

  /** The same, reading all that may be declared. */
  Verb readingEverything() {
    return new Verb(isWholeSet, hasSideEffects, isPure, reads.extended(isPure));
  }
}
