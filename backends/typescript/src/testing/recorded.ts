/** Reads what `extender-gateway try --objects` writes: a pod and nodes of a cluster, or of files, with all that can be read. */

import { readFileSync } from 'node:fs';

import type { MapValues } from '../gen/extender/policy/v1beta1/map.js';
import { FilterRequest } from '../gen/extender/policy/v1beta1/policy.js';
import type { NodeRow } from '../gen/extender/policy/v1beta1/node.js';
import type { Pod } from '../gen/extender/policy/v1beta1/pod.js';
import { decode } from '../request.js';

/** The objects of a file. @throws an error that names it */
export function readRecorded(path: string): { pod: Pod; nodes: NodeRow[] } {
  try {
    return objectsOf(decode(FilterRequest, readFileSync(path)));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(
      `${path} has no recorded objects: ${why}; write it again with extender-gateway try --objects`,
      { cause: error },
    );
  }
}

/** A file that is cut off between two fields can be decoded nevertheless. */
function objectsOf({ pod, nodes }: FilterRequest): { pod: Pod; nodes: NodeRow[] } {
  const rows = nodes?.form?.$case === 'rows' ? nodes.form.value.rows : [];
  if (pod?.facts === undefined || nodes?.count !== rows.length) {
    throw new Error('it is cut off, or of another kind');
  }
  const maps = [pod.facts, ...rows.map(({ facts }) => facts)].flatMap((facts) => [
    facts?.labels,
    facts?.annotations,
  ]);
  if (maps.some((map: MapValues | undefined) => map !== undefined && map.values.length > 0)) {
    throw new Error('its labels have no keys');
  }
  return { pod, nodes: rows };
}
