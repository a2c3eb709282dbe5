/**
 * Estimates the memory of a message before it is decoded: an empty message of two bytes on the wire can become an object
 * of a kilobyte. The shapes name the parts that take more than a small multiple of their bytes. Rows stay encoded, so
 * of theirs only the lists count that a policy may decode.
 */

import { CallError } from './errors.js';
import { BYTES, Fields } from './wire.js';

/** What every message may take, whatever its length: enough for a preemption with ten thousand victims. Calls are decoded one at a time. */
const BASE = 64 << 20;

/** What a message may take per byte. */
const PER_BYTE = 32;

/**
 * The most memory that a decoded request may take. A large preemption: 1,500 candidates with thirty victims each, in
 * objects of JavaScript.
 */
const MOST = 256 << 20;

/** The objects that the generated code makes, in bytes. */
const TEXT = 32;
const NUMBER = 8;
const OBJECT = 96;
const MAP_ENTRY = 96;
const RESOURCES_OBJECT = 320;
const POD_OBJECT = 1_536;
const ROW_OBJECT = 512;
const FOUND_ROW = 128;
const SELECTOR_OBJECT = 272;
const TERM_OBJECT = 192;

/** The parts of a message that are counted, by the number of the field. */
export type Shape = ReadonlyMap<number, Part>;

interface Part {
  /** The memory of each occurrence, besides its own bytes. */
  readonly bytes: number;
  /** Numbers, each of which takes this much, packed or not. */
  readonly isNumbers?: boolean;
  /** The parts of a message. */
  readonly shape?: Shape;
  /** An element that is invalid if it is empty: the name is that of its list. */
  readonly list?: string;
}

function shape(parts: Readonly<Record<number, Part>>): Shape {
  return new Map(Object.entries(parts).map(([number, part]) => [Number(number), part]));
}

const texts: Part = { bytes: TEXT };
const entries: Part = { bytes: MAP_ENTRY };
const numbers: Part = { bytes: NUMBER, isNumbers: true };

const RESOURCES = shape({ 5: entries });
const REQUIREMENT = shape({ 3: texts });
const SELECTOR_TERM = shape({
  1: { bytes: OBJECT, shape: REQUIREMENT },
  2: { bytes: OBJECT, shape: REQUIREMENT },
});
const NODE_AFFINITY = shape({
  1: { bytes: OBJECT, shape: shape({ 1: { bytes: OBJECT, shape: SELECTOR_TERM } }) },
  2: { bytes: OBJECT, shape: shape({ 2: { bytes: OBJECT, shape: SELECTOR_TERM } }) },
});
const LABEL_SELECTOR: Part = {
  bytes: SELECTOR_OBJECT,
  shape: shape({ 1: entries, 2: { bytes: OBJECT, shape: REQUIREMENT } }),
};
const AFFINITY_TERM: Part = {
  bytes: TERM_OBJECT,
  shape: shape({ 1: LABEL_SELECTOR, 2: texts, 3: LABEL_SELECTOR, 5: texts, 6: texts }),
};
const WEIGHTED_TERM: Part = { bytes: OBJECT, shape: shape({ 2: AFFINITY_TERM }) };
const POD_AFFINITY = shape({ 1: AFFINITY_TERM, 2: WEIGHTED_TERM, 3: AFFINITY_TERM, 4: WEIGHTED_TERM });
const MAP_VALUES: Part = { bytes: OBJECT, shape: shape({ 1: texts, 2: numbers, 3: entries }) };
const POD_FACTS = shape({
  7: { bytes: RESOURCES_OBJECT, shape: RESOURCES },
  8: { bytes: OBJECT },
  9: entries,
  10: { bytes: OBJECT },
  12: { bytes: OBJECT, shape: NODE_AFFINITY },
  18: MAP_VALUES,
  19: MAP_VALUES,
  20: { bytes: OBJECT, shape: shape({ 4: { bytes: OBJECT } }) },
  21: { bytes: TERM_OBJECT, shape: POD_AFFINITY },
  22: { bytes: TERM_OBJECT, shape: shape({ 4: LABEL_SELECTOR, 8: texts }) },
  23: { bytes: OBJECT },
});
const DOMAIN = shape({ 4: { bytes: RESOURCES_OBJECT, shape: RESOURCES } });
const POD = shape({
  1: { bytes: OBJECT, shape: shape({ 3: texts }) },
  2: { bytes: POD_OBJECT, shape: POD_FACTS },
  4: { bytes: OBJECT, shape: shape({ 1: { bytes: OBJECT, shape: DOMAIN } }) },
});
/** Taints, images and addresses. */
const NODE_FACTS = shape({
  3: { bytes: OBJECT },
  14: { bytes: OBJECT, shape: shape({ 1: texts }) },
  16: { bytes: OBJECT },
});
const ROW = shape({ 2: { bytes: 0, shape: NODE_FACTS } });
const NODES = shape({
  // The rows of a verb that reads nothing of nodes are empty.
  2: { bytes: 0, shape: shape({ 1: { bytes: ROW_OBJECT, shape: ROW } }) },
  3: {
    bytes: 0,
    shape: shape({
      3: { bytes: NUMBER + FOUND_ROW, isNumbers: true },
      4: { bytes: ROW_OBJECT, shape: ROW, list: 'nodes.table.rows' },
    }),
  },
});
const VICTIM = shape({ 2: { bytes: OBJECT, shape: POD } });
const CANDIDATE = shape({ 1: { bytes: OBJECT, shape: VICTIM, list: 'victims' } });
const MAP_READS = shape({ 1: texts, 2: texts });
const NODE_READS = shape({
  1: numbers,
  2: { bytes: OBJECT, shape: MAP_READS },
  3: { bytes: OBJECT, shape: MAP_READS },
  4: { bytes: OBJECT },
});

/** FilterRequest, ScoreRequest and ChangeRequest. */
export const QUESTION = shape({ 2: { bytes: 0, shape: POD }, 3: { bytes: 0, shape: NODES } });

/** PreemptRequest. */
export const PREEMPT = shape({
  2: { bytes: 0, shape: POD },
  3: { bytes: 0, shape: NODES },
  4: { bytes: OBJECT, shape: CANDIDATE, list: 'candidates' },
});

/** ChangeRequest of the hook without nodes, which are not decoded. */
export const BEFORE_FILTER = shape({ 2: { bytes: 0, shape: POD } });

/** BindRequest. */
export const BIND = shape({ 6: { bytes: 0, shape: POD } });

const KNOWN = shape({
  1: numbers,
  2: numbers,
  3: numbers,
  4: numbers,
  5: numbers,
  6: numbers,
  7: texts,
  8: texts,
});

/** GetInfoRequest. */
export const GET_INFO = shape({ 2: texts, 5: { bytes: OBJECT, shape: KNOWN } });

/** ReportRequest. */
export const REPORT = shape({ 2: { bytes: OBJECT } });

/** SyncNodesRequest, whose rows count in their table. */
export const SYNC_NODES = shape({
  4: { bytes: ROW_OBJECT, list: 'upserts' },
  5: numbers,
  8: { bytes: OBJECT, shape: NODE_READS },
});

/** Rejects a message that would take much more memory than its bytes, or that has empty entries. */
export function checkSize(message: Buffer, of: Shape): void {
  const limit = Math.min(message.length * PER_BYTE + BASE, MOST);
  if (take(new Fields(message), of, limit) < 0) {
    throw CallError.tooLarge(
      `the message has ${String(message.length)} bytes and would take more than ${String(limit)} decoded; send fewer and fuller entries`,
    );
  }
}

/** How many bytes are left; negative if there are not enough. */
function take(fields: Fields, of: Shape, left: number): number {
  let rest = left;
  while (rest >= 0 && fields.next()) {
    const part = of.get(fields.number);
    if (part !== undefined) {
      rest = takePart(fields, part, rest - part.bytes * occurrences(fields, part));
    }
  }
  return rest;
}

function takePart(fields: Fields, part: Part, left: number): number {
  if (fields.wire !== BYTES || left < 0) {
    return left;
  }
  if (part.list !== undefined && fields.start === fields.stop) {
    throw CallError.invalid(`${part.list} has an empty entry; each entry has content`);
  }
  if (part.shape === undefined) {
    return left;
  }
  const outer = fields.enter();
  const rest = take(fields, part.shape, left);
  fields.leave(outer);
  return rest;
}

function occurrences(fields: Fields, part: Part): number {
  if (part.isNumbers !== true || fields.wire !== BYTES) {
    return 1;
  }
  let count = 0;
  for (let at = fields.start; at < fields.stop; at += 1) {
    // The last byte of each number has its highest bit clear.
    count += (fields.bytes[at] ?? 0) < 0x80 ? 1 : 0;
  }
  return count;
}
