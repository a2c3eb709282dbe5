package io.extendergateway.policy;

/**
 * How a verb is called. The default suits most policies: each node on its own, with the node's
 * facts, and again for each call. Immutable: each method returns a new verb.
 */
public final class Verb {
  final View view;
  final boolean isWholeSet;
  final boolean hasSideEffects;
  final boolean isPure;
  final boolean wantsUsage;

  /** {@code null}: everything is sent. */
  final Reads reads;

  private Verb(
      View view,
      boolean isWholeSet,
      boolean hasSideEffects,
      boolean isPure,
      boolean wantsUsage,
      Reads reads) {
    this.view = view;
    this.isWholeSet = isWholeSet;
    this.hasSideEffects = hasSideEffects;
    this.isPure = isPure;
    this.wantsUsage = wantsUsage;
    this.reads = reads;
  }

  /** The answer about a node depends on the pod and that node alone. */
  public static Verb perNode() {
    return new Verb(View.FACTS, false, false, false, false, null);
  }

  /**
   * The answer depends on all nodes of the request ("at most three of them"): the policy is called
   * after those before it, with the nodes that they left. Costs a separate round for each pod.
   */
  public static Verb wholeSet() {
    return perNode().inWholeSet();
  }

  Verb inWholeSet() {
    return new Verb(view, true, hasSideEffects, isPure, wantsUsage, reads);
  }

  static Verb bind() {
    return perNode().view(View.NAME);
  }

  /** What to send about each node. Default: {@link View#FACTS}. */
  public Verb view(View wanted) {
    return new Verb(wanted, isWholeSet, hasSideEffects, isPure, wantsUsage, reads);
  }

  /**
   * The answer for a node is a function of args, the pod's facts and that node: it may be cached,
   * and the pod's name and UID are not sent. By far the fastest. Not with {@link #wholeSet}, {@link
   * #sideEffects} or raw JSON; not for a policy that uses the time, or anything outside that its
   * revision does not name.
   */
  public Verb pure() {
    return new Verb(view, isWholeSet, hasSideEffects, true, wantsUsage, reads);
  }

  /**
   * Requests {@link Node#usage} too: what the pods on each node have requested. Needs {@link
   * View#FACTS}, and a gateway that watches pods. A {@linkplain #pure pure} verb may use it; the
   * answer for a node is then cached until a pod is added to the node or removed from it.
   */
  public Verb usage() {
    return new Verb(view, isWholeSet, hasSideEffects, isPure, true, reads);
  }

  /**
   * What the verb reads of pods and nodes: this is sent, and nothing else can be read. Default:
   * everything is sent but annotations, for which {@link Info#annotations} asks. Scores come in one
   * round with the verdicts only if both verbs read the same.
   *
   * @param declared the declaration; later changes of it have no effect
   */
  public Verb reads(Reads declared) {
    return new Verb(view, isWholeSet, hasSideEffects, isPure, wantsUsage, declared.copy());
  }

  /**
   * A call changes something outside (a reservation, a quota): the policy is called in turn, only
   * with the nodes that really remain, and only when kube-scheduler is deciding. Calls for any
   * other purpose are rejected before they reach the policy.
   */
  public Verb sideEffects() {
    return new Verb(view, isWholeSet, true, isPure, wantsUsage, reads);
  }

  /**
   * The same without a declaration. Counts of pods exist only by declaration, so a verb that has
   * them declares everything else, too.
   */
  Verb readingEverything() {
    if (reads == null || !reads.countsPods()) {
      return new Verb(view, isWholeSet, hasSideEffects, isPure, true, null);
    }
    Reads everything = reads.everything();
    if (!isPure) {
      everything.pod(PodPart.IDENTITY);
    }
    return new Verb(view, isWholeSet, hasSideEffects, isPure, true, everything);
  }
}
