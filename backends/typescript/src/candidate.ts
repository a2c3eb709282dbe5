/** Preemption and binding as a policy sees them. */

import type {
  BindRequest,
  Call,
  Candidate as CandidateMessage,
} from './gen/extender/policy/v1beta1/policy.js';
import type { Node } from './node.js';
import { Pod } from './pod.js';
import type { Access } from './reads/access.js';

/** The evictions that would make room for the pod on one node. */
export class Candidate {
  /**
   * The pods that would be evicted, in kube-scheduler's order: the most important pod first. None if the pod fits on the
   * node without evictions for all but an extender: `Eviction.all` leaves the node to the next policy.
   */
  readonly victims: readonly Victim[];
  /** How many of the evictions would violate a PodDisruptionBudget. */
  readonly pdbViolations: number;

  /** @internal */
  constructor(
    /** The node. */
    readonly node: Node,
    { victims, pdbViolations }: CandidateMessage,
    access: Access,
  ) {
    this.pdbViolations = pdbViolations;
    this.victims = victims.map(({ uid, pod }) => ({
      uid,
      pod: pod === undefined ? undefined : Pod.of(pod, access),
    }));
  }
}

/** A pod that would be evicted. */
export interface Victim {
  /** metadata.uid. */
  readonly uid: string;
  /**
   * The pod; undefined if only its UID is known: kube-scheduler sends no more with `nodeCacheCapable: true`, and the
   * gateway watches no pods, or has not seen this one yet.
   */
  readonly pod: Pod | undefined;
}

/** Which pod is to be bound to which node. */
export interface BindAsk {
  /** metadata.namespace of the pod. */
  readonly namespace: string;
  /** metadata.name of the pod. */
  readonly name: string;
  /**
   * metadata.uid of the pod. A pod of that name with another UID must not be bound: put the UID into the Binding's
   * metadata, and the apiserver checks it.
   */
  readonly uid: string;
  /** Name of the node. */
  readonly node: string;
  /** The id of the call, as in {@link Outcome.call}: to be kept with what the call changes outside. */
  readonly callId: string;
  /** The pod; undefined if the gateway knows only its name. */
  readonly pod: Pod | undefined;
  /** Aborts when the caller cancels or the deadline passes: pass it to the requests that the policy makes. */
  readonly signal: AbortSignal;
}

/** A view of a checked request. */
export function bindAsk(
  { namespace, name, uid, node }: BindRequest,
  { id: callId }: Call,
  pod: Pod | undefined,
  signal: AbortSignal,
): BindAsk {
  return { namespace, name, uid, node, callId, pod, signal };
}
