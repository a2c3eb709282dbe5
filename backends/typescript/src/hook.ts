/** What a policy declares about a hook. */

import { ChangedPart as ChangedPartNumber } from './gen/extender/policy/v1alpha1/info.js';
import { Verb, type View } from './info.js';
import type { Reads } from './reads.js';

/** What hooks change of the pod, by the numbers of the contract. */
export const CHANGED_POD_PARTS = {
  podLabels: ChangedPartNumber.POD_LABELS,
  podNodeSelector: ChangedPartNumber.POD_NODE_SELECTOR,
  podNodeAffinity: ChangedPartNumber.POD_NODE_AFFINITY,
  podTolerations: ChangedPartNumber.POD_TOLERATIONS,
  podRequests: ChangedPartNumber.POD_REQUESTS,
} as const;

/** What hooks change of nodes. */
export const CHANGED_NODE_PARTS = {
  nodeLabels: ChangedPartNumber.NODE_LABELS,
  nodeTaints: ChangedPartNumber.NODE_TAINTS,
  nodeAllocatable: ChangedPartNumber.NODE_ALLOCATABLE,
  nodeUsage: ChangedPartNumber.NODE_USAGE,
} as const;

/** What hooks change of pods and nodes. */
export const CHANGED_PARTS = { ...CHANGED_POD_PARTS, ...CHANGED_NODE_PARTS } as const;

/** A part of the pod or of nodes that a hook may change. */
export type ChangedPart = keyof typeof CHANGED_PARTS;

/** What a {@link Hook} has collected. @internal */
export interface HookFields {
  readonly changes: readonly ChangedPart[];
  /** How it is called. */
  readonly verb: Verb;
}

/**
 * How a hook is called, and what it changes. The default suits most policies: each node on its own, with the node's
 * facts, and again for each call. A hook has no side effects. It does not change: each method returns another one.
 *
 * ```ts
 * new Info('reserve', '1.0.0').beforeFilterNodes(Hook.changes('nodeAllocatable').pure().reads(reads));
 * ```
 */
export class Hook {
  private constructor(
    /** @internal */
    readonly fields: HookFields,
  ) {}

  /**
   * What the hook changes, and it may change nothing else: parts of the pod for {@link Info.beforeFilter}, parts of nodes
   * for {@link Info.beforeFilterNodes}, both for {@link Info.beforeScore}. At least one.
   */
  static changes(...parts: readonly ChangedPart[]): Hook {
    return new Hook({ changes: [...new Set(parts)], verb: Verb.perNode() });
  }

  /**
   * The change of a node depends on all nodes of the request: such a hook is always told about all of them. Not for
   * {@link Info.beforeFilter}, which has no nodes; the same is true for {@link view} and {@link usage}.
   */
  wholeSet(): Hook {
    return this.with({ verb: this.fields.verb.inWholeSet() });
  }

  /** What to send about each node. Default: `facts`. */
  view(view: View): Hook {
    return this.with({ verb: this.fields.verb.view(view) });
  }

  /**
   * The change is a function of args, the pod's facts and, of a node, that node: it may be cached, and the pod's name and
   * UID are not sent. With the limits of {@link Verb.pure}; a pure {@link Info.beforeScore} changes nodes alone.
   */
  pure(): Hook {
    return this.with({ verb: this.fields.verb.pure() });
  }

  /** Requests {@link Node.usage} too, as {@link Verb.usage} does. */
  usage(): Hook {
    return this.with({ verb: this.fields.verb.usage() });
  }

  /**
   * What the hook reads of the pod and of nodes, as {@link Verb.reads} declares it: this is sent, and nothing else can be
   * read. Not counts by topology.
   */
  reads(reads: Reads): Hook {
    return this.with({ verb: this.fields.verb.reads(reads) });
  }

  private with(change: Partial<HookFields>): Hook {
    return new Hook({ ...this.fields, ...change });
  }
}
