/** From a request of a hook to an answer, without sockets. */

import {
  about,
  admit,
  checkPurpose,
  counted,
  type Note,
  podOf,
  policyFor,
  resultOf,
  termsOf,
} from '../answer.js';
import type { Backend } from '../backend.js';
import { nodeChangesOf, podChangeOf } from '../change/checked.js';
import type { ScoreChanges } from '../change.js';
import { CallError } from '../errors.js';
import type {
  BeforeFilterNodesResponse,
  BeforeFilterResponse,
  BeforeScoreResponse,
} from '../gen/extender/policy/v1alpha1/hooks.js';
import { BeforeFilterRequest } from '../gen/extender/policy/v1alpha1/hooks.js';
import { decode, decoding } from '../request.js';
import { BEFORE_FILTER, checkSize } from '../size.js';
import type { Tables } from '../table.js';

/** The fields of {@link ScoreChanges}. */
const FIELDS = ['pod', 'nodes'];

/** What changes about the pod before nodes are filtered for it. */
export function answerBeforeFilter(backend: Backend, message: Buffer, note: Note): BeforeFilterResponse {
  admit(backend, message, 'BeforeFilter');
  const request = decoding(() => {
    checkSize(message, BEFORE_FILTER);
    return decode(BeforeFilterRequest, message);
  });
  const { call } = request;
  if (call === undefined) {
    throw CallError.missing('call');
  }
  const prepared = policyFor(backend, call, 'BeforeFilter', note);
  const terms = termsOf(prepared, 'BeforeFilter');
  checkPurpose(call, terms);
  const pod = podOf(request.pod, terms, call.snapshot);
  prepared.policy.ready();
  const change = podChangeOf('beforeFilter', prepared.policy.beforeFilter(pod));
  note('extender.nodes.evaluated', 1);
  return { result: resultOf(prepared, 1), pod: change };
}

/** What changes about the nodes before they are filtered. */
export function answerBeforeFilterNodes(
  backend: Backend,
  tables: Tables,
  message: Buffer,
  note: Note,
): BeforeFilterNodesResponse {
  const context = { backend, tables, message, verb: 'BeforeFilterNodes', note } as const;
  return about(context, { nodes: [] }, ({ prepared, pod, nodes }) => {
    prepared.policy.ready();
    const changes = prepared.policy.beforeFilterNodes(pod, nodes);
    return { nodes: nodeChangesOf('beforeFilterNodes', counted('beforeFilterNodes', changes, nodes.length)) };
  });
}

/** What changes about the pod and the nodes before they are scored. */
export function answerBeforeScore(
  backend: Backend,
  tables: Tables,
  message: Buffer,
  note: Note,
): BeforeScoreResponse {
  const context = { backend, tables, message, verb: 'BeforeScore', note } as const;
  return about(context, { pod: undefined, nodes: [] }, ({ prepared, pod, nodes }) => {
    prepared.policy.ready();
    const changes = checkedChanges(prepared.policy.beforeScore(pod, nodes));
    const ofNodes = changes.nodes === undefined ? [] : counted('beforeScore', changes.nodes, nodes.length);
    return { pod: podChangeOf('beforeScore', changes.pod), nodes: nodeChangesOf('beforeScore', ofNodes) };
  });
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
