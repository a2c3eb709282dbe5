package io.extendergateway.policy;

import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;

/**
 * How a hook is called, and what it changes. The default suits most policies: each node on its own,
 * with the node's facts, and again for each call. A hook has no side effects. Immutable: each
 * method returns a new hook.
 *
 * <pre>{@code
 * Info.of("spare-cpu", "1.0.0")
 *     .beforeFilterNodes(Hook.changing(ChangedPart.NODE_ALLOCATABLE).pure().reads(reads));
 * }</pre>
 */
public final class Hook {
  final Set<ChangedPart> changes;

  /** {@code null}: the default of verbs. */
  final View view;

  final boolean isWholeSet;
  final boolean isPure;
  final boolean wantsUsage;

  /** {@code null}: everything is sent. */
  final Reads reads;

  private Hook(
      Set<ChangedPart> changes,
      View view,
      boolean isWholeSet,
      boolean isPure,
      boolean wantsUsage,
      Reads reads) {
    this.changes = changes;
    this.view = view;
    this.isWholeSet = isWholeSet;
    this.isPure = isPure;
    this.wantsUsage = wantsUsage;
    this.reads = reads;
  }

  /**
   * A hook that may change these parts and nothing else. The change of the pod depends on the pod
   * alone, and the change of a node on the pod and that node alone.
   *
   * @param parts the parts, at least one: of the pod for {@link Info#beforeFilter}, of nodes for
   *     {@link Info#beforeFilterNodes}, of both for {@link Info#beforeScore}
   */
  public static Hook changing(ChangedPart... parts) {
    Set<ChangedPart> changes = EnumSet.noneOf(ChangedPart.class);
    Collections.addAll(changes, parts);
    return new Hook(Collections.unmodifiableSet(changes), null, false, false, false, null);
  }

  /**
   * The changes depend on all nodes of the request. Not for {@link Info#beforeFilter}, which has no
   * nodes.
   */
  public Hook wholeSet() {
    return new Hook(changes, view, true, isPure, wantsUsage, reads);
  }

  /**
   * What to send about each node. Default: {@link View#FACTS}. Not for {@link Info#beforeFilter}.
   */
  public Hook view(View wanted) {
    return new Hook(changes, wanted, isWholeSet, isPure, wantsUsage, reads);
  }

  /**
   * The change is a function of args, the pod's facts and, if it is one of a node, that node, as in
   * {@link Verb#pure}. Not for an {@link Info#beforeScore} that changes the pod.
   */
  public Hook pure() {
    return new Hook(changes, view, isWholeSet, true, wantsUsage, reads);
  }

  /**
   * Requests {@link Node#usage} too, as {@link Verb#usage} does. Not for {@link Info#beforeFilter}.
   */
  public Hook usage() {
    return new Hook(changes, view, isWholeSet, isPure, true, reads);
  }

  /**
   * What the hook reads of the pod and of nodes, as in {@link Verb#reads}. Default: everything is
   * sent but annotations. Not counts by topology; of the pod alone for {@link Info#beforeFilter}.
   *
   * @param declared the declaration; later changes of it have no effect
   */
  public Hook reads(Reads declared) {
    return new Hook(changes, view, isWholeSet, isPure, wantsUsage, declared.copy());
  }

  /** The same without a declaration of what it reads. */
  Hook readingEverything() {
    Verb everything = verb().readingEverything();
    return new Hook(changes, view, isWholeSet, isPure, everything.wantsUsage, everything.reads);
  }

  /** What it has in common with verbs. */
  Verb verb() {
    Verb verb = isWholeSet ? Verb.wholeSet() : Verb.perNode();
    if (view != null) {
      verb = verb.view(view);
    }
    if (isPure) {
      verb = verb.pure();
    }
    if (wantsUsage) {
      verb = verb.usage();
    }
    return reads == null ? verb : verb.reads(reads);
  }
}
