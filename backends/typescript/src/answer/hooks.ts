/** From a request of a hook to an answer, without sockets. */

import {
  about,
  admit,
  type Asked,
  checkPurpose,
  counted,
  type Note,
  podOf,
  policyFor,
  resultOf,
  termsOf,
} from '../answer.js';
import type { Backend } from '../backend.js';
import { nodeChangesOf, podChangeOf, type Returned } from '../change/checked.js';
import type { ScoreChanges } from '../change.js';
import { CallError } from '../errors.js';
import {
  BeforeFilterNodesResponse,
  BeforeFilterRequest,
  BeforeFilterResponse,
  BeforeScoreResponse,
} from '../gen/extender/policy/v1alpha1/hooks.js';
import { decode, decoding } from '../request.js';
import { BEFORE_FILTER, checkSize } from '../size.js';
import type { Tables } from '../table.js';

/** The largest response of BeforeFilter in the contract, in bytes. */
const MAX_POD_BYTES = 128 << 10;

/** The largest response about nodes: this, and as much for each node. */
const MAX_NODES_BYTES = 64 << 10;
const MAX_NODE_BYTES = 1 << 10;

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
  const hook = { method: 'beforeFilter', declared: terms.changes };
  const response = {
    result: resultOf(prepared, 1),
    pod: podChangeOf(hook, prepared.policy.beforeFilter(pod)),
  };
  checkPodBytes(hook, BeforeFilterResponse.encode(response).finish());
  note('extender.nodes.evaluated', 1);
  return response;
}

/** What changes about the nodes before they are filtered. */
export function answerBeforeFilterNodes(
  backend: Backend,
  tables: Tables,
  message: Buffer,
  note: Note,
): BeforeFilterNodesResponse {
  const context = { backend, tables, message, verb: 'BeforeFilterNodes', note } as const;
  return about(context, { nodes: [] }, ({ prepared, terms, pod, nodes }) => {
    prepared.policy.ready();
    const hook = { method: 'beforeFilterNodes', declared: terms.changes };
    const changes = counted(hook.method, prepared.policy.beforeFilterNodes(pod, nodes), nodes.length);
    const answer = { nodes: nodeChangesOf(hook, changes) };
    const response = { ...answer, result: resultOf(prepared, nodes.length) };
    checkBytes(hook, BeforeFilterNodesResponse.encode(response).finish(), nodes.length);
    return answer;
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
  return about(context, { pod: undefined, nodes: [] }, (asked) => {
    const hook = { method: 'beforeScore', declared: asked.terms.changes };
    const answer = scoreChanges(hook, asked);
    const response = { ...answer, result: resultOf(asked.prepared, asked.nodes.length) };
    checkBytes(hook, BeforeScoreResponse.encode(response).finish(), asked.nodes.length);
    return answer;
  });
}

function scoreChanges(hook: Returned, { prepared, pod, nodes }: Asked): Omit<BeforeScoreResponse, 'result'> {
  prepared.policy.ready();
  const changes = checkedChanges(hook, prepared.policy.beforeScore(pod, nodes));
  const ofNodes = changes.nodes === undefined ? [] : counted(hook.method, changes.nodes, nodes.length);
  return { pod: podChangeOf(hook, changes.pod), nodes: nodeChangesOf(hook, ofNodes) };
}

/** A policy may be plain JavaScript: a promise would look like changes that change nothing. */
function checkedChanges({ method }: Returned, changes: unknown): ScoreChanges {
  const isObject = changes instanceof Object && Object.keys(changes).every((key) => FIELDS.includes(key));
  if (!isObject || changes instanceof Promise || Array.isArray(changes)) {
    throw CallError.internal(
      `${method} returned no changes; expected an object with pod, nodes, both or neither, and not a promise`,
    );
  }
  return changes;
}

function checkPodBytes({ method }: Returned, { length }: Uint8Array): void {
  if (length > MAX_POD_BYTES) {
    throw CallError.internal(
      `${method} returned changes of ${String(length)} bytes; expected at most ${String(MAX_POD_BYTES)}, change fewer things`,
    );
  }
}

function checkBytes({ method }: Returned, { length }: Uint8Array, nodes: number): void {
  const most = MAX_NODES_BYTES + nodes * MAX_NODE_BYTES;
  if (length > most) {
    throw CallError.internal(
      `${method} returned changes of ${String(length)} bytes for ${String(nodes)} nodes; expected at most ${String(most)}, change fewer things or several nodes alike`,
    );
  }
}
