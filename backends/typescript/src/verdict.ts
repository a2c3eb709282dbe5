/** A policy's answers about one node: verdict, score, eviction, bind. */

import type { Candidate, Victim } from './candidate.js';

/**
 * The score of a node about which the policy has no opinion, the least integer of 32 bits: no normalization counts it,
 * and it adds nothing to the total of the node.
 */
export const NO_OPINION = -(2 ** 31);

/** The largest number of seconds in the contract. */
const UINT32_MAX = 2 ** 32 - 1;

/** May the pod run on the node? */
export class Verdict {
  /** Yes, as far as this policy is concerned. */
  static readonly accept = new Verdict(undefined, false, '', undefined);

  private constructor(
    /** For people; undefined for an accepted node. */
    readonly reason: string | undefined,
    /** Whether no eviction of pods from the node would help. */
    readonly isUnresolvable: boolean,
    /** The policy's rule that rejects; empty if it has no name. */
    readonly rule: string,
    /** In how many seconds the verdict can be another one; undefined if that is not known. */
    readonly retryAfterSeconds: number | undefined,
  ) {}

  /**
   * Rejects the node. Evicting pods from it could change that, unless it is {@link unresolvable}. The reason must depend on the verdict alone: a text that differs from one attempt to the next (a
   * time, a free amount) makes kube-scheduler retry the pod without end. An empty reason becomes "rejected". A verdict
   * does not change, so one that is often given can be a constant.
   */
  static reject(reason: string): Verdict {
    return new Verdict(reason, false, '', undefined);
  }

  /**
   * Names the rule of the policy that rejects, as its author or operator calls it: `explain` and the gateway's decision
   * log show it, the pod's condition does not. At most 63 bytes are sent. An accepted node stays accepted.
   */
  byRule(name: string): Verdict {
    return this.isAccept ? this : new Verdict(this.reason, this.isUnresolvable, name, this.retryAfterSeconds);
  }

  /**
   * Declares that no eviction of pods from this node would change the verdict, so that kube-scheduler tries none: for
   * whatever does not depend on the pods on the node, such as its labels. Without it kube-scheduler may evict pods there, if
   * the operator allows that. An accepted node stays accepted.
   */
  unresolvable(): Verdict {
    return this.isAccept ? this : new Verdict(this.reason, true, this.rule, this.retryAfterSeconds);
  }

  /**
   * Says in how many seconds from now the verdict can be another one at the earliest if nothing but time passes, such as
   * until a maintenance ends: a hint for people, which `explain` and the gateway's decision log show. Rounded up to whole
   * seconds, 0 to 4294967295. A cached answer of a pure verb repeats it. An accepted node stays accepted.
   */
  retryAfter(seconds: number): Verdict {
    // Math.max and Math.min let it pass, and it cannot be encoded.
    if (Number.isNaN(seconds)) {
      throw new RangeError('retryAfter got NaN; give it a number of seconds');
    }
    const whole = Math.min(Math.max(Math.ceil(seconds), 0), UINT32_MAX);
    return this.isAccept ? this : new Verdict(this.reason, this.isUnresolvable, this.rule, whole);
  }

  /** Whether the pod may run on the node. */
  get isAccept(): boolean {
    return this.reason === undefined;
  }
}

/** A policy's answer about one candidate for preemption. */
export class Eviction {
  /** Evict the victims as they are, if this node is taken. */
  static readonly all = new Eviction('all');
  /** Evict no pod here: the node is no longer a candidate. */
  static readonly spare = new Eviction('spare');

  private constructor(
    /** All victims, none, or some by their positions. */
    readonly victims: 'all' | 'spare' | readonly number[],
  ) {}

  /**
   * Evict these, by their positions among the victims, each once and at least one. Nothing checks afterwards whether the
   * pod fits when the others stay.
   */
  static only(positions: readonly number[]): Eviction {
    return new Eviction([...positions]);
  }

  /** Evicts the victims for which `evict` returns true; {@link Eviction.spare} if there are none. */
  static of(candidate: Candidate, evict: (victim: Victim) => boolean): Eviction {
    const positions = candidate.victims.flatMap((victim, position) => (evict(victim) ? [position] : []));
    if (positions.length === candidate.victims.length) {
      return Eviction.all;
    }
    return positions.length === 0 ? Eviction.spare : Eviction.only(positions);
  }
}

/** How a bind ended. A bind that failed is a {@link BindFailed} that is thrown. */
export class Bind {
  /** The Binding exists: this pod, this node. Also if it existed before. */
  static readonly bound = new Bind(undefined);

  private constructor(
    /** Why the policy does not bind or has not bound the pod; undefined if the pod is bound. */
    readonly why: string | undefined,
    /** Whether the policy does not bind the pod, and has not tried to. */
    readonly isDeclined = false,
  ) {}

  /**
   * The policy does not bind this pod, and has not tried to. The text says why, for people, at most 1024 bytes. The next
   * binder is called.
   */
  static declined(why: string): Bind {
    return new Bind(why, true);
  }

  /**
   * The policy binds this pod, and has not: it is certain that this call made no Binding and that none will come, because none
   * was requested, or the apiserver refused it. The text says why, for people, at most 1024 bytes. A failure as {@link BindFailed}
   * is, after which the pod does not count on the node.
   */
  static notBound(why: string): Bind {
    return new Bind(why);
  }

  /** Whether the pod is bound. */
  get isBound(): boolean {
    return this.why === undefined;
  }
}
