/** Turns what a policy's hook returned into the contract's messages. The gateway, and policy-conformance, judge what they have. */

import { NodeChange, PodChange } from '../change.js';
import { CallError } from '../errors.js';
import {
  NodeChange as NodeChangeMessage,
  PodChange as PodChangeMessage,
} from '../gen/extender/policy/v1beta1/hooks.js';
import { CHANGE_REASON_BYTES } from '../limits.js';
import { cut } from '../text.js';

/** The change of the pod that a method of the policy returned; undefined if there is none. */
export function podChangeOf(method: string, change: PodChange | undefined): PodChangeMessage | undefined {
  if (change === undefined) {
    return undefined;
  }
  // A policy may be plain JavaScript.
  if (!((change as unknown) instanceof PodChange)) {
    throw CallError.internal(`${method} returned no PodChange; expected one or undefined, and not a promise`);
  }
  const { topologySpread, ...fields } = change;
  const message = PodChangeMessage.fromPartial({
    ...(fields as Partial<PodChangeMessage>),
    topologySpread: topologySpread && { constraints: topologySpread.slice() },
  });
  message.reason = cut(change.reason, CHANGE_REASON_BYTES);
  const isNothing = PodChangeMessage.encode({ ...message, reason: '' }).finish().length === 0;
  return isNothing ? undefined : message;
}

/** The changes of nodes, one entry for all nodes that change alike, in the order of their first occurrence. */
export function nodeChangesOf(method: string, changes: readonly unknown[]): NodeChangeMessage[] {
  const entries = new Map<string, NodeChangeMessage>();
  // Most changes are the same few objects.
  const known = new Map<unknown, NodeChangeMessage | undefined>([[undefined, undefined]]);
  for (const [position, change] of changes.entries()) {
    if (!known.has(change)) {
      // A policy may be plain JavaScript.
      if (!(change instanceof NodeChange)) {
        throw CallError.internal(
          `${method} returned no NodeChange for position ${String(position)}; expected one or undefined`,
        );
      }
      known.set(change, entryOf(change, entries));
    }
    known.get(change)?.positions.push(position);
  }
  return [...entries.values()];
}

/** The entry for a change, without positions if it is a new one; undefined if the change changes nothing. */
function entryOf(change: NodeChange, entries: Map<string, NodeChangeMessage>): NodeChangeMessage | undefined {
  const message = NodeChangeMessage.fromPartial(change as Partial<NodeChangeMessage>);
  message.reason = cut(change.reason, CHANGE_REASON_BYTES);
  const encoded = Buffer.from(NodeChangeMessage.encode({ ...message, reason: '' }).finish());
  if (encoded.length === 0) {
    return undefined;
  }
  const key = `${encoded.toString('latin1')}\0${message.reason}`;
  const entry = entries.get(key) ?? message;
  entries.set(key, entry);
  return entry;
}
