/** Which parts a change touches, to compare them with the declaration of the hook. */

import type { NodeChange, PodChange } from '../change.js';
import type { ChangedPart } from '../hook.js';

/** A field of a change, and the part that it changes. */
export interface Touched {
  readonly part: ChangedPart;
  readonly field: string;
}

/** The fields that change something about the pod. */
export function podTouched(change: PodChange): Touched[] {
  return touched([
    ['podLabels', 'setLabels', change.setLabels.size > 0],
    ['podLabels', 'removeLabels', change.removeLabels.length > 0],
    ['podNodeSelector', 'setNodeSelector', change.setNodeSelector.size > 0],
    ['podNodeSelector', 'removeNodeSelector', change.removeNodeSelector.length > 0],
    ['podNodeAffinity', 'nodeAffinity', change.nodeAffinity !== undefined],
    ['podNodeAffinity', 'removeNodeAffinity', change.removeNodeAffinity],
    ['podTolerations', 'addTolerations', change.addTolerations.length > 0],
    ['podTolerations', 'removeTolerations', change.removeTolerations.length > 0],
    ['podRequests', 'addRequests', change.addRequests !== undefined],
  ]);
}

/** The same for a change of nodes. */
export function nodeTouched(change: NodeChange): Touched[] {
  return touched([
    ['nodeAllocatable', 'addAllocatable', change.addAllocatable !== undefined],
    ['nodeUsage', 'addUsage', change.addUsage !== undefined],
    ['nodeUsage', 'holds', change.holds.length > 0],
    ['nodeLabels', 'setLabels', change.setLabels.size > 0],
    ['nodeLabels', 'removeLabels', change.removeLabels.length > 0],
    ['nodeTaints', 'addTaints', change.addTaints.length > 0],
    ['nodeTaints', 'removeTaints', change.removeTaints.length > 0],
  ]);
}

function touched(fields: readonly (readonly [ChangedPart, string, boolean])[]): Touched[] {
  return fields.filter(([, , isTouched]) => isTouched).map(([part, field]) => ({ part, field }));
}
