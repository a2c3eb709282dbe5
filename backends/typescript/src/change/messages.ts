/** Changes as the contract's messages. */

import { affinityMessage } from '../affinity.js';
import type { NodeChange, PodChange } from '../change.js';
import type {
  NodeChange as NodeChangeMessage,
  PodChange as PodChangeMessage,
} from '../gen/extender/policy/v1alpha1/hooks.js';
import { resourcesOf } from '../resources.js';
import { cut } from '../text.js';

/** The longest reason in the contract. */
const MAX_REASON_BYTES = 200;

export function podMessage(change: PodChange): PodChangeMessage {
  return {
    setLabels: new Map(change.setLabels),
    removeLabels: [...change.removeLabels],
    setNodeSelector: new Map(change.setNodeSelector),
    removeNodeSelector: [...change.removeNodeSelector],
    nodeAffinity: change.nodeAffinity && affinityMessage(change.nodeAffinity),
    removeNodeAffinity: change.removeNodeAffinity,
    addTolerations: [...change.addTolerations],
    removeTolerations: [...change.removeTolerations],
    addRequests: change.addRequests && resourcesOf(change.addRequests),
    reason: cut(change.reason, MAX_REASON_BYTES),
  };
}

/** The message without positions. */
export function nodeMessage(change: NodeChange): NodeChangeMessage {
  const { addAllocatable, addUsage } = change;
  return {
    positions: [],
    addAllocatable: addAllocatable && resourcesOf(addAllocatable),
    addUsage: addUsage && {
      requested: addUsage.requested && resourcesOf(addUsage.requested),
      nonzero: addUsage.nonzero,
    },
    setLabels: new Map(change.setLabels),
    removeLabels: [...change.removeLabels],
    addTaints: [...change.addTaints],
    removeTaints: [...change.removeTaints],
    holds: change.holds.map(({ resources, users }) => ({
      resources: resourcesOf(resources),
      users: users.map(({ uid, atMost }) => ({ uid, atMost: atMost && resourcesOf(atMost) })),
    })),
    reason: cut(change.reason, MAX_REASON_BYTES),
  };
}
