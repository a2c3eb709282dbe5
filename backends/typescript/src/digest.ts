/** SHA-256, by which calls name what their requests are made for, and the operator's args. */

import { createHash } from 'node:crypto';

export const SHA256_BYTES = 32;

export function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}

/** The digest as the key of a map. */
export function keyOf(digest: Uint8Array): string {
  return Buffer.from(digest.buffer, digest.byteOffset, digest.length).toString('latin1');
}
