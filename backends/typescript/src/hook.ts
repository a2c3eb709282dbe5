/** What a policy declares about a hook. */

import { ChangedPart as ChangedPartNumber } from './gen/extender/policy/v1beta1/info.js';
import { Called, Verb } from './info.js';

/** What hooks change of pods and nodes, by the numbers of the contract. */
export const CHANGED_PARTS = {
  podLabels: ChangedPartNumber.POD_LABELS,
  podAnnotations: ChangedPartNumber.POD_ANNOTATIONS,
  podNodeSelector: ChangedPartNumber.POD_NODE_SELECTOR,
  podNodeAffinity: ChangedPartNumber.POD_NODE_AFFINITY,
  podAffinity: ChangedPartNumber.POD_AFFINITY,
  podTopologySpread: ChangedPartNumber.POD_TOPOLOGY_SPREAD,
  podTolerations: ChangedPartNumber.POD_TOLERATIONS,
  podRequests: ChangedPartNumber.POD_REQUESTS,
  nodeLabels: ChangedPartNumber.NODE_LABELS,
  nodeTaints: ChangedPartNumber.NODE_TAINTS,
  nodeAllocatable: ChangedPartNumber.NODE_ALLOCATABLE,
  nodeUsage: ChangedPartNumber.NODE_USAGE,
} as const;

/** A part of the pod or of nodes that a hook may change. */
export type ChangedPart = keyof typeof CHANGED_PARTS;

/** What a {@link Hook} has collected. @internal */
export interface HookFields {
  readonly changes: readonly ChangedPart[];
  /** How it is called. */
  readonly verb: Verb;
}

/**
 * How a hook is called, and what it changes. The default suits most policies: each node on its own, and again for each
 * call. A hook has no side effects. It does not change: each method returns another one.
 *
 * ```ts
 * new Info('reserve', '1.0.0').beforeFilterNodes(Hook.changes('nodeAllocatable').pure().reads(reads));
 * ```
 */
export class Hook extends Called {
  private constructor(
    /** @internal */
    readonly fields: HookFields,
  ) {
    super();
  }

  /**
   * What the hook changes, and it may change nothing else: parts of the pod for {@link Info.beforeFilter}, parts of nodes
   * for {@link Info.beforeFilterNodes}, both for {@link Info.beforeScore}. At least one.
   */
  static changes(...parts: readonly ChangedPart[]): Hook {
    return new Hook({ changes: [...new Set(parts)], verb: Verb.perNode() });
  }

  /**
   * The change of a node depends on all nodes of the request: such a hook is always told about all of them. Not for
   * {@link Info.beforeFilter}, which has no nodes.
   */
  wholeSet(): this {
    return this.with({ isWholeSet: true });
  }

  /** @internal */
  override with(change: Parameters<Verb['with']>[0]): this {
    return new Hook({ ...this.fields, verb: this.fields.verb.with(change) }) as this;
  }
}
