/** Changes as the contract's messages. */

import type { NodeChange, PodChange } from '../change.js';
import {
  NodeChange as NodeChangeMessage,
  PodChange as PodChangeMessage,
} from '../gen/extender/policy/v1alpha1/hooks.js';
import { CHANGE_REASON_BYTES } from '../limits.js';
import { cut } from '../text.js';

/** A message, which shares nothing with the change. */
export function podMessage(change: PodChange): PodChangeMessage {
  const fields = change as Parameters<typeof PodChangeMessage.fromPartial>[0];
  return PodChangeMessage.fromPartial({ ...fields, reason: cut(change.reason, CHANGE_REASON_BYTES) });
}

/** The same, without positions. */
export function nodeMessage(change: NodeChange): NodeChangeMessage {
  const fields = change as Parameters<typeof NodeChangeMessage.fromPartial>[0];
  return NodeChangeMessage.fromPartial({ ...fields, reason: cut(change.reason, CHANGE_REASON_BYTES) });
}
