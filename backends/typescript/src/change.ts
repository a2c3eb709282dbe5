/** What hooks change about the pod and about nodes. */

import {
  type Affinity,
  affinityMessage,
  type PodAffinityGiven,
  type TopologySpreadGiven,
} from './affinity.js';
import type { HoldUser as HoldUserMessage } from './gen/extender/policy/v1beta1/hooks.js';
import { PodAffinity, type Toleration, TopologySpreadConstraint } from './gen/extender/policy/v1beta1/pod.js';
import {
  type Amounts,
  type NonZero,
  type NonZeroAmounts,
  nonZeroOf,
  type Resources,
  resourcesOf,
  type Taint,
} from './resources.js';
import { compareBytes } from './text.js';

/** Values by key: an object, or a map. */
export type Texts = ReadonlyMap<string, string> | Readonly<Record<string, string>>;

/** A toleration as a policy writes it; what is left out is empty. */
export interface TolerationGiven {
  /** Empty: every key. */
  readonly key?: string | undefined;
  /** "Equal", which is the default, or "Exists". */
  readonly operator?: string | undefined;
  readonly value?: string | undefined;
  /** "NoSchedule", "PreferNoSchedule" or "NoExecute". Empty: every effect. */
  readonly effect?: string | undefined;
  /** How long a NoExecute taint is tolerated. Undefined: forever. */
  readonly tolerationSeconds?: bigint | number | undefined;
}

/** A taint to be added as a policy writes it. */
export interface TaintGiven {
  readonly key: string;
  readonly value?: string | undefined;
  readonly effect: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute';
}

/** Taints to be removed: those with this key and, unless they are empty or left out, this value and this effect. */
export interface TaintsRemoved {
  readonly key: string;
  readonly value?: string | undefined;
  readonly effect?: string | undefined;
}

/** What a {@link PodChange} is made of. The limits of the policy API hold for entries, keys and values. */
export interface PodChangeFields {
  /** Labels that are added or replaced. */
  readonly setLabels?: Texts | undefined;
  /** Keys of labels that are removed; those that the pod does not have are ignored. */
  readonly removeLabels?: readonly string[] | undefined;
  /** Annotations that are added or replaced. */
  readonly setAnnotations?: Texts | undefined;
  /** Keys of annotations that are removed; those that the pod does not have are ignored. */
  readonly removeAnnotations?: readonly string[] | undefined;
  /** Entries of the node selector that are added or replaced. */
  readonly setNodeSelector?: Texts | undefined;
  /** Keys of the node selector that are removed. */
  readonly removeNodeSelector?: readonly string[] | undefined;
  /** The node affinity that replaces the pod's. */
  readonly nodeAffinity?: Affinity | undefined;
  /** The pod has no node affinity. Not with `nodeAffinity`. */
  readonly removeNodeAffinity?: boolean | undefined;
  /** The affinity and anti-affinity to pods that replaces the pod's; without terms the pod has none. */
  readonly podAffinity?: PodAffinityGiven | undefined;
  /** The topology spread constraints that replace the pod's; an empty list: the pod has none. */
  readonly topologySpread?: readonly TopologySpreadGiven[] | undefined;
  /** Tolerations that are added behind the pod's. */
  readonly addTolerations?: readonly TolerationGiven[] | undefined;
  /** Tolerations that are removed: those that are equal to one of these in all fields. */
  readonly removeTolerations?: readonly TolerationGiven[] | undefined;
  /** Added to the requests. Amounts may be negative; a sum is at least 0. */
  readonly addRequests?: Amounts | undefined;
  /** Why, for people: `explain` and the gateway's decision log show it. At most 200 bytes are sent. */
  readonly reason?: string | undefined;
}

/**
 * What changes about the pod of a call; everything that is not named stays as it is. What is removed is removed before
 * something is added. A change that is often given can be a constant.
 *
 * ```ts
 * new PodChange({ setNodeSelector: { disk: 'ssd' }, removeLabels: ['tier'], reason: 'databases need fast disks' });
 * ```
 */
export class PodChange {
  readonly setLabels: ReadonlyMap<string, string>;
  readonly removeLabels: readonly string[];
  readonly setAnnotations: ReadonlyMap<string, string>;
  readonly removeAnnotations: readonly string[];
  readonly setNodeSelector: ReadonlyMap<string, string>;
  readonly removeNodeSelector: readonly string[];
  readonly nodeAffinity: Affinity | undefined;
  readonly removeNodeAffinity: boolean;
  readonly podAffinity: Readonly<PodAffinity> | undefined;
  readonly topologySpread: readonly Readonly<TopologySpreadConstraint>[] | undefined;
  readonly addTolerations: readonly Toleration[];
  readonly removeTolerations: readonly Toleration[];
  /** Undefined if nothing is added. */
  readonly addRequests: Resources | undefined;
  readonly reason: string;

  constructor(fields: PodChangeFields) {
    this.setLabels = texts(fields.setLabels);
    this.removeLabels = [...(fields.removeLabels ?? [])];
    this.setAnnotations = texts(fields.setAnnotations);
    this.removeAnnotations = [...(fields.removeAnnotations ?? [])];
    this.setNodeSelector = texts(fields.setNodeSelector);
    this.removeNodeSelector = [...(fields.removeNodeSelector ?? [])];
    this.nodeAffinity = fields.nodeAffinity && affinityMessage(fields.nodeAffinity);
    this.removeNodeAffinity = fields.removeNodeAffinity ?? false;
    this.podAffinity = fields.podAffinity && PodAffinity.fromPartial(fields.podAffinity);
    this.topologySpread = fields.topologySpread?.map((given) => TopologySpreadConstraint.fromPartial(given));
    this.addTolerations = (fields.addTolerations ?? []).map(toleration);
    this.removeTolerations = (fields.removeTolerations ?? []).map(toleration);
    this.addRequests = added(fields.addRequests);
    this.reason = fields.reason ?? '';
  }
}

/** What a {@link NodeChange} is made of. The limits of the policy API hold for entries, keys and values. */
export interface NodeChangeFields {
  /** Added to the allocatable resources, of nodes that report some. Amounts may be negative; a sum is at least 0. */
  readonly addAllocatable?: Amounts | undefined;
  /** Added to the usage, where it is known. Amounts may be negative; a sum is at least 0. */
  readonly addUsage?: UsageGiven | undefined;
  /** Labels that are added or replaced. */
  readonly setLabels?: Texts | undefined;
  /** Keys of labels that are removed; those that a node does not have are ignored. */
  readonly removeLabels?: readonly string[] | undefined;
  /** Taints that are added behind the node's. */
  readonly addTaints?: readonly TaintGiven[] | undefined;
  /** Taints that are removed. */
  readonly removeTaints?: readonly TaintsRemoved[] | undefined;
  /**
   * Room that is kept on the node: the gateway adds to the usage what the users do not use of it there, with the usage of
   * which it tells, so that nobody sees room free between two users.
   */
  readonly holds?: readonly HoldGiven[] | undefined;
  /** Why, for people: `explain` and the gateway's decision log show it. At most 200 bytes are sent. */
  readonly reason?: string | undefined;
}

/** Amounts for {@link NodeUsage}. */
export interface UsageGiven {
  readonly requested?: Amounts | undefined;
  readonly nonzero?: NonZeroAmounts | undefined;
}

/** Room that is kept for pods. */
export interface HoldGiven {
  /** What is kept, none of it negative. */
  readonly resources: Amounts;
  /**
   * UIDs of the pods that use it, or are about to, or these with a limit. Leave out users that are beyond the limits of
   * the policy API, and more is kept.
   */
  readonly users?: readonly (string | HoldUser)[] | undefined;
}

/** A pod for which room is kept. */
export interface HoldUser {
  readonly uid: string;
  /** The most of its requests that are taken from the hold, `pods` aside. Undefined: all of them. */
  readonly atMost?: Amounts | undefined;
}

/** What is added to {@link NodeUsage}; undefined where nothing is. */
export interface UsageAdded {
  readonly requested: Resources | undefined;
  readonly nonzero: NonZero | undefined;
}

/**
 * What changes about a node; everything that is not named stays as it is. It names no node: nodes that change alike
 * share one, which is best a constant.
 */
export class NodeChange {
  /** Undefined if nothing is added. */
  readonly addAllocatable: Resources | undefined;
  /** Undefined if nothing is added. */
  readonly addUsage: UsageAdded | undefined;
  readonly setLabels: ReadonlyMap<string, string>;
  readonly removeLabels: readonly string[];
  readonly addTaints: readonly Taint[];
  /** An empty value or effect stands for each. */
  readonly removeTaints: readonly Taint[];
  readonly holds: readonly { readonly resources: Resources; readonly users: readonly HoldUserMessage[] }[];
  readonly reason: string;

  constructor(fields: NodeChangeFields) {
    this.addAllocatable = added(fields.addAllocatable);
    this.addUsage = usageAdded(fields.addUsage);
    this.setLabels = texts(fields.setLabels);
    this.removeLabels = [...(fields.removeLabels ?? [])];
    this.addTaints = (fields.addTaints ?? []).map(taint);
    this.removeTaints = (fields.removeTaints ?? []).map(taint);
    this.holds = (fields.holds ?? []).map(({ resources, users = [] }) => ({
      resources: resourcesOf(resources),
      users: users.map(heldFor),
    }));
    this.reason = fields.reason ?? '';
  }
}

/** What {@link Policy.beforeScore} changes. */
export interface ScoreChanges {
  /** Undefined: the pod stays as it is. */
  readonly pod?: PodChange | undefined;
  /** One entry for each node, in their order; undefined for a node that stays as it is. Left out: all nodes do. */
  readonly nodes?: readonly (NodeChange | undefined)[] | undefined;
}

function toleration(given: TolerationGiven): Toleration {
  const { key = '', operator = '', value = '', effect = '', tolerationSeconds } = given;
  const seconds = tolerationSeconds === undefined ? undefined : BigInt(tolerationSeconds);
  return { key, operator, value, effect, tolerationSeconds: seconds };
}

function heldFor(user: string | HoldUser): HoldUserMessage {
  const { uid, atMost } = typeof user === 'string' ? { uid: user } : user;
  return { uid, atMost: atMost && resourcesOf(atMost) };
}

function taint({ key, value = '', effect = '' }: TaintsRemoved): Taint {
  return { key, value, effect };
}

/** In the order of their keys, so that equal ones are encoded equally. */
function texts(given: Texts = {}): ReadonlyMap<string, string> {
  const entries = given instanceof Map ? [...(given as ReadonlyMap<string, string>)] : Object.entries(given);
  return new Map(entries.toSorted(([a], [b]) => compareBytes(a, b)));
}

function added(amounts: Amounts | undefined): Resources | undefined {
  const sum = resourcesOf(amounts ?? {});
  const { milliCpu, memory, ephemeralStorage, pods, others } = sum;
  const isNothing = others.size === 0 && [milliCpu, memory, ephemeralStorage, pods].every((n) => n === 0n);
  return isNothing ? undefined : sum;
}

function usageAdded({ requested, nonzero }: UsageGiven = {}): UsageAdded | undefined {
  const sums = { requested: added(requested), nonzero: nonZeroOf(nonzero ?? {}) };
  const isNonzero = sums.nonzero.milliCpu !== 0n || sums.nonzero.memory !== 0n;
  if (sums.requested === undefined && !isNonzero) {
    return undefined;
  }
  return { requested: sums.requested, nonzero: isNonzero ? sums.nonzero : undefined };
}
