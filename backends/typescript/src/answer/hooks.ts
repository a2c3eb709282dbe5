/** The answers of hooks: what their policies change. */

import { type Asked, counted, type Decision } from '../answer.js';
import { nodeChangesOf, podChangeOf } from '../change/checked.js';
import type { ScoreChanges } from '../change.js';
import { CallError } from '../errors.js';
import type { ChangeResponse } from '../gen/extender/policy/v1beta1/hooks.js';

/** The fields of {@link ScoreChanges}. */
const FIELDS = ['pod', 'nodes'];

/** What changes about the pod before nodes are filtered for it. */
export function beforeFilter({ prepared, pod }: Asked): Decision<ChangeResponse> {
  return { pod: podChangeOf('beforeFilter', prepared.policy.beforeFilter(pod)), nodes: [] };
}

/** What changes about the nodes before they are filtered. */
export function beforeFilterNodes({ prepared, pod, nodes }: Asked): Decision<ChangeResponse> {
  const changes = counted('beforeFilterNodes', prepared.policy.beforeFilterNodes(pod, nodes), nodes.length);
  return { pod: undefined, nodes: nodeChangesOf('beforeFilterNodes', changes) };
}

/** What changes about the pod and the nodes before they are scored. */
export function beforeScore({ prepared, pod, nodes }: Asked): Decision<ChangeResponse> {
  const changes = checkedChanges(prepared.policy.beforeScore(pod, nodes));
  const ofNodes = changes.nodes === undefined ? [] : counted('beforeScore', changes.nodes, nodes.length);
  return { pod: podChangeOf('beforeScore', changes.pod), nodes: nodeChangesOf('beforeScore', ofNodes) };
}

/** A policy may be plain JavaScript: a promise would look like changes that change nothing. */
function checkedChanges(changes: unknown): ScoreChanges {
  const isObject = changes instanceof Object && Object.keys(changes).every((key) => FIELDS.includes(key));
  if (!isObject || changes instanceof Promise || Array.isArray(changes)) {
    throw CallError.internal(
      'beforeScore returned no changes; expected an object with pod, nodes, both or neither, and not a promise',
    );
  }
  return changes;
}
