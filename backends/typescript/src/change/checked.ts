/** Turns what a policy's hook returned into the contract's messages, after checking it against contract and declaration. */

import { NodeChange, PodChange } from '../change.js';
import { CallError } from '../errors.js';
import {
  NodeChange as NodeChangeMessage,
  type PodChange as PodChangeMessage,
} from '../gen/extender/policy/v1alpha1/hooks.js';
import type { ChangedPart } from '../hook.js';
import { nodeMistake, podMistake } from './limits.js';
import { nodeMessage, podMessage } from './messages.js';
import { nodeTouched, podTouched, type Touched } from './touched.js';

/** A hook that has returned something. */
export interface Returned {
  /** The method of the policy. */
  readonly method: string;
  /** What the hook declares to change. */
  readonly declared: ReadonlySet<ChangedPart>;
}

/** The change of the pod; undefined if there is none. */
export function podChangeOf(hook: Returned, change: PodChange | undefined): PodChangeMessage | undefined {
  if (change === undefined) {
    return undefined;
  }
  // A policy may be plain JavaScript.
  if (!((change as unknown) instanceof PodChange)) {
    throw CallError.internal(
      `${hook.method} returned no PodChange; expected one or undefined, and not a promise`,
    );
  }
  const touched = podTouched(change);
  check(hook, 'a PodChange', touched, podMistake(change));
  return touched.length === 0 ? undefined : podMessage(change);
}

/** The changes of nodes, one entry for all nodes that change alike, in the order of their first occurrence. */
export function nodeChangesOf(
  hook: Returned,
  changes: readonly (NodeChange | undefined)[],
): NodeChangeMessage[] {
  const entries = new Map<string, NodeChangeMessage>();
  // Most changes are the same few objects.
  const known = new Map<NodeChange | undefined, NodeChangeMessage | undefined>([[undefined, undefined]]);
  for (const [position, change] of changes.entries()) {
    if (!known.has(change)) {
      known.set(change, entryOf(hook, change, position, entries));
    }
    known.get(change)?.positions.push(position);
  }
  return [...entries.values()];
}

/** The entry for a change, without positions if it is a new one; undefined if the change changes nothing. */
function entryOf(
  hook: Returned,
  change: unknown,
  position: number,
  entries: Map<string, NodeChangeMessage>,
): NodeChangeMessage | undefined {
  if (!(change instanceof NodeChange)) {
    throw CallError.internal(
      `${hook.method} returned no NodeChange for position ${String(position)}; expected one or undefined`,
    );
  }
  const touched = nodeTouched(change);
  check(hook, `a NodeChange for position ${String(position)}`, touched, nodeMistake(change));
  if (touched.length === 0) {
    return undefined;
  }
  const message = nodeMessage(change);
  const key = Buffer.from(NodeChangeMessage.encode(message).finish()).toString('latin1');
  const entry = entries.get(key) ?? message;
  entries.set(key, entry);
  return entry;
}

function check(
  { method, declared }: Returned,
  what: string,
  touched: readonly Touched[],
  mistake: string | undefined,
): void {
  const undeclared = touched.find(({ part }) => !declared.has(part));
  if (undeclared !== undefined) {
    const { part, field } = undeclared;
    throw CallError.internal(
      `${method} returned ${what} with ${field}, and does not declare to change '${part}'; add it to Hook.changes`,
    );
  }
  if (mistake !== undefined) {
    throw CallError.internal(`${method} returned ${what} that ${mistake}`);
  }
}
