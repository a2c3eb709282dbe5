/** What a policy observes of attempts to place pods. */

import {
  type Outcome as OutcomeMessage,
  OutcomeKind as OutcomeKindNumber,
} from './gen/extender/policy/v1beta1/outcomes.js';

/** How an attempt to place a pod ended. */
export type OutcomeKind =
  /** The pod is bound to {@link Outcome.node}. */
  | 'bound'
  /** The pod is not bound, and certainly will not be by this attempt. */
  | 'notBound'
  /** Another attempt has begun before the end of this one was known; its own outcome follows. */
  | 'superseded'
  /** The pod does not exist any more, or has ended, whether it was bound or not. */
  | 'deleted';

/** The end of an attempt to place a pod, which {@link Policy.observe} is told. */
export interface Outcome {
  /**
   * The id of the latest call for a filter or a bind in which the policy was asked about the pod: {@link Pod.callId} or
   * {@link BindAsk.callId} there.
   */
  readonly call: string;
  /** metadata.namespace of the pod. */
  readonly namespace: string;
  /** metadata.name of the pod. */
  readonly name: string;
  /** metadata.uid of the pod. */
  readonly uid: string;
  readonly kind: OutcomeKind;
  /** The node of a pod that is `bound`, whoever chose it; otherwise left out. */
  readonly node?: string;
}

const KINDS = {
  bound: OutcomeKindNumber.BOUND,
  notBound: OutcomeKindNumber.NOT_BOUND,
  superseded: OutcomeKindNumber.SUPERSEDED,
  deleted: OutcomeKindNumber.DELETED,
} as const satisfies Record<OutcomeKind, OutcomeKindNumber>;

/** A checked outcome. One of a kind of a later version is as good as one that is superseded. */
export function outcomeOf({ kind: number, node, ...pod }: OutcomeMessage): Outcome {
  const kinds = Object.keys(KINDS) as OutcomeKind[];
  const kind = kinds.find((name) => KINDS[name] === number) ?? 'superseded';
  return { ...pod, kind, ...(kind === 'bound' ? { node } : {}) };
}

/** The contract's message. */
export function outcomeMessage({ kind, node = '', ...pod }: Outcome): OutcomeMessage {
  return { ...pod, kind: KINDS[kind], node };
}
