package io.extendergateway.policy;

import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;

/**
 * How a hook is called, what it reads and what it changes. The default: each node on its own, again
 * for each call, and nothing is read. A hook has no side effects. Immutable: each method returns a
 * new hook.
 *
 * <pre>{@code
 * Info.of("spare-cpu", "1.0.0")
 *     .beforeFilterNodes(Hook.changes(ChangedPart.NODE_ALLOCATABLE).pure().reads(reads));
 * }</pre>
 */
public final class Hook {
  final Set<ChangedPart> changes;

  /** How it is called. */
  final Verb verb;

  private Hook(Set<ChangedPart> changes, Verb verb) {
    this.changes = changes;
    this.verb = verb;
  }

  /**
   * A hook that may change these parts and nothing else. The change of the pod depends on the pod
   * alone, and the change of a node on the pod and that node alone.
   *
   * @param parts the parts, at least one: of the pod for {@link Info#beforeFilter}, of nodes for
   *     {@link Info#beforeFilterNodes}, of both for {@link Info#beforeScore}
   */
  public static Hook changes(ChangedPart... parts) {
    Set<ChangedPart> changes = EnumSet.noneOf(ChangedPart.class);
    Collections.addAll(changes, parts);
    return new Hook(Collections.unmodifiableSet(changes), Verb.perNode());
  }

  /** A verb, as a hook that changes nothing. */
  static Hook unchanging(Verb verb) {
    return new Hook(Set.of(), verb);
  }

  /**
   * The changes depend on all nodes of the request. Not for {@link Info#beforeFilter}, which has no
   * nodes.
   */
  public Hook wholeSet() {
    return new Hook(changes, verb.inWholeSet());
  }

  /**
   * The change is a function of args, the pod's facts and, if it is one of a node, that node, as in
   * {@link Verb#pure}. Not for an {@link Info#beforeScore} that changes the pod.
   */
  public Hook pure() {
    return new Hook(changes, verb.pure());
  }

  /**
   * What the hook reads of the pod and of nodes, as in {@link Verb#reads}. Default: nothing. Not
   * counts by topology; of the pod alone for {@link Info#beforeFilter}.
   *
   * @param declared the declaration; later changes of it have no effect
   */
  public Hook reads(Reads declared) {
    return new Hook(changes, verb.reads(declared));
  }

  /** The same, reading all that may be declared. */
  Hook readingEverything() {
    return new Hook(changes, verb.readingEverything());
  }
}
