/** Changes as the contract's messages. */

import type { NodeChange, PodChange } from '../change.js';
import {
  NodeChange as NodeChangeMessage,
  PodChange as PodChangeMessage,
} from '../gen/extender/policy/v1alpha1/hooks.js';
import { cut } from '../text.js';

/** The longest reason in the contract. */
const MAX_REASON_BYTES = 200;

/** A message, which shares nothing with the change. */
export function podMessage(change: PodChange): PodChangeMessage {
  const fields = change as Parameters<typeof PodChangeMessage.fromPartial>[0];
  return PodChangeMessage.fromPartial({ ...fields, reason: cut(change.reason, MAX_REASON_BYTES) });
}

/** The same, without positions. */
export function nodeMessage(change: NodeChange): NodeChangeMessage {
  const fields = change as Parameters<typeof NodeChangeMessage.fromPartial>[0];
  return NodeChangeMessage.fromPartial({ ...fields, reason: cut(change.reason, MAX_REASON_BYTES) });
}
