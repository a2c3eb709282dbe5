/** What a policy author implements. */

import type { BindAsk, Candidate } from './candidate.js';
import type { NodeChange, PodChange, ScoreChanges } from './change.js';
import type { Info } from './info.js';
import type { Node } from './node.js';
import type { Outcome } from './outcome.js';
import type { Pod } from './pod.js';
import { Bind, Eviction, Verdict } from './verdict.js';

/**
 * A policy: which nodes a pod may not run on, and how good the others are for it. With hooks it changes what all policies
 * are told about the pod and the nodes.
 *
 * A small policy implements {@link info} and one of {@link filter}, {@link score} and {@link preempt}. These must not
 * block or wait, because no other call is served meanwhile. They may throw: that call fails, the next one is answered.
 */
export abstract class Policy {
  /**
   * What this policy is, and which data it needs. Called once, before the first call; it must not change during the
   * lifetime of this object.
   */
  abstract info(): Info;

  /** May the pod run on this node? Called only if {@link info} declares it with {@link Info.filters}. */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- an author overrides it
  filter(pod: Pod, node: Node): Verdict {
    return Verdict.accept;
  }

  /**
   * How good is this node for the pod? An integer of 32 bits, or {@link NO_OPINION}. Called also for nodes that
   * {@link filter} rejects, if both are per node: scores then come in one round with the verdicts. Larger is better, unless
   * the declared {@link Scale} is reversed. Called only if {@link info} declares it with {@link Info.scores}.
   */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- an author overrides it
  score(pod: Pod, node: Node): number {
    return 0;
  }

  /**
   * May these pods be evicted to make room for the pod on this node? Called only if {@link info} declares it with
   * {@link Info.preempts}. kube-scheduler takes one of the nodes that all policies leave.
   */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- an author overrides it
  preempt(pod: Pod, candidate: Candidate): Eviction {
    return Eviction.all;
  }

  /**
   * One verdict for each node, in their order. A policy overrides this if nodes depend on one another (then it declares
   * {@link Verb.wholeSet}), or to compute something about the pod once for all nodes.
   */
  filterAll(pod: Pod, nodes: readonly Node[]): readonly Verdict[] {
    return nodes.map((node) => this.filter(pod, node));
  }

  /** One score for each node, in their order; overridden for the same reasons as {@link filterAll}. */
  scoreAll(pod: Pod, nodes: readonly Node[]): readonly number[] {
    return nodes.map((node) => this.score(pod, node));
  }

  /**
   * One answer for each candidate, in their order; overridden for the same reasons as {@link filterAll}. This verb is
   * called in turn, whatever it declares.
   */
  preemptAll(pod: Pod, candidates: readonly Candidate[]): readonly Eviction[] {
    return candidates.map((candidate) => this.preempt(pod, candidate));
  }

  /**
   * Binds the pod to the node, or declines; throws {@link BindFailed} if binding failed. Called only if {@link info}
   * declares it with {@link Info.binds}, and only when kube-scheduler is binding. It may be called again for the same
   * pod and node: an existing binding is {@link Bind.bound} again. Other calls are answered while it waits.
   */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- an author overrides it
  bind(ask: BindAsk): Bind | Promise<Bind> {
    return Bind.declined('this policy does not bind');
  }

  /**
   * Learns how an attempt to place a pod ended, to undo what the policy has changed outside for it. Called only if
   * {@link info} declares it with {@link Info.observesOutcomes}, also while the policy is not ready.
   *
   * ```ts
   * override observe({ kind, uid, call }: Outcome): void {
   *   if (kind === 'bound') {
   *     this.#reserved.confirm(uid);
   *   } else if (kind === 'deleted' || this.#reserved.callOf(uid) === call) {
   *     this.#reserved.release(uid);
   *   }
   * }
   * ```
   *
   * Each filter or bind keeps its {@link Pod.callId} or {@link BindAsk.callId} with the reservation: `notBound` and
   * `superseded` undo it only if {@link Outcome.call} is this id, because a later call may have reserved since. `bound` and
   * `deleted` hold whichever call it was.
   *
   * Each outcome comes at least once, so it must be idempotent, and do nothing for a pod that the policy does not know:
   * outcomes come in requests of many, and the gateway repeats all of a request if this throws for one of them or the
   * answer is lost. The answer must be quick: the next outcome waits for it, and what takes long belongs elsewhere, such as
   * into a queue of the policy.
   */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- an author overrides it
  observe(outcome: Outcome): void | Promise<void> {
    // A policy that does not declare it is not told.
  }

  /**
   * What changes about the pod before nodes are filtered for it; undefined if nothing does. All backends of the call are
   * then told about the changed pod. Called only if {@link info} declares it with {@link Info.beforeFilter}, also while a
   * call is only prepared or simulated: it must be free of side effects, as all hooks.
   */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- an author overrides it
  beforeFilter(pod: Pod): PodChange | undefined {
    return undefined;
  }

  /**
   * What changes about this node before it is filtered; undefined if nothing does. Called only if {@link info} declares
   * {@link Info.beforeFilterNodes}.
   */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- an author overrides it
  beforeFilterNode(pod: Pod, node: Node): NodeChange | undefined {
    return undefined;
  }

  /**
   * One change for each node, in their order; undefined for a node that stays as it is. Overridden for the same reasons
   * as {@link filterAll}; a hook whose nodes depend on one another declares {@link Hook.wholeSet}.
   */
  beforeFilterNodes(pod: Pod, nodes: readonly Node[]): readonly (NodeChange | undefined)[] {
    return nodes.map((node) => this.beforeFilterNode(pod, node));
  }

  /**
   * What changes about the pod and the nodes before they are scored. Called only if {@link info} declares it with
   * {@link Info.beforeScore}.
   */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- an author overrides it
  beforeScore(pod: Pod, nodes: readonly Node[]): ScoreChanges {
    return {};
  }

  /**
   * Can the policy decide now? Called before each call. A policy whose data is missing or stale (its price list is a day
   * old) throws {@link NotReady} with a sentence, and the failure policy that the operator chose decides.
   */
  ready(): void {
    // A policy without data of its own is always ready.
  }

  /**
   * The policy that answers from now on: this one, or a newer one that took its place, because what it was made from has
   * changed: a file, or the time of day. Called before each handshake and each call, so it must be cheap. The newer one
   * has another {@link Info.revision}, with which the gateway drops the answers that it has cached: so a verb that
   * depends on such a thing may still be pure. If it declares other reads, this one still answers the calls that were
   * made for it.
   */
  // eslint-disable-next-line @typescript-eslint/prefer-return-this-type -- a newer policy is another object
  current(): Policy {
    return this;
  }
}
