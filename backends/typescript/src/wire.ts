/**
 * Protobuf's wire format, read in place: a row of the node table is looked at many times and mostly only in part, so
 * it stays encoded. Everything else is decoded by the generated code.
 */

import { isUtf8 } from 'node:buffer';

/** Bytes that are not the message that they should be. */
export class Malformed extends Error {
  override readonly name = 'Malformed';
}

/** The type of a field on the wire. */
export const VARINT = 0;
export const FIXED64 = 1;
export const BYTES = 2;
export const FIXED32 = 5;

/** Walks over the fields of a message. */
export class Fields {
  /** The number of the current field. */
  number = 0;
  /** Its type on the wire. */
  wire = 0;
  /** Where its value begins; for {@link BYTES} after the length. */
  start = 0;
  /** Where its value ends. */
  stop: number;

  constructor(
    readonly bytes: Buffer,
    start = 0,
    private end = bytes.length,
  ) {
    this.stop = start;
  }

  /** Goes to the next field; false at the end. */
  next(): boolean {
    if (this.stop >= this.end) {
      return false;
    }
    this.start = this.stop;
    const tag = this.length();
    this.number = Math.floor(tag / 8);
    this.wire = tag & 7;
    if (this.number === 0 || tag > 0xffffffff) {
      throw broken();
    }
    switch (this.wire) {
      case VARINT:
        this.stop = endOfVarint(this.bytes, this.start, this.end);
        break;
      case BYTES:
        // It moves the start.
        this.stop = this.length() + this.start;
        break;
      case FIXED64:
        this.stop = this.start + 8;
        break;
      case FIXED32:
        this.stop = this.start + 4;
        break;
      default:
        throw broken();
    }
    if (this.stop > this.end) {
      throw broken();
    }
    return true;
  }

  /** The value as a number of 32 bits. */
  uint32(): number {
    this.expect(VARINT);
    return varint32(this.bytes, this.start, this.stop);
  }

  /** The value as an unsigned number of 64 bits. */
  uint64(): bigint {
    this.expect(VARINT);
    return BigInt.asUintN(64, varint64(this.bytes, this.start, this.stop));
  }

  /** The value as a number of 64 bits. */
  int64(): bigint {
    this.expect(VARINT);
    return BigInt.asIntN(64, varint64(this.bytes, this.start, this.stop));
  }

  /** The value as a flag. */
  bool(): boolean {
    this.expect(VARINT);
    for (let at = this.start; at < this.stop; at += 1) {
      if (((this.bytes[at] ?? 0) & 0x7f) !== 0) {
        return true;
      }
    }
    return false;
  }

  /** The value as a text. */
  text(): string {
    this.expect(BYTES);
    return textAt(this.bytes, this.start, this.stop);
  }

  /** The value as bytes, which share the memory of the message. */
  slice(): Buffer {
    this.expect(BYTES);
    return this.bytes.subarray(this.start, this.stop);
  }

  /** The value as a message. */
  message(): Fields {
    this.expect(BYTES);
    return new Fields(this.bytes, this.start, this.stop);
  }

  /** Begins to walk over the fields of the value, a message; what is returned is for {@link leave}. */
  enter(): number {
    this.expect(BYTES);
    const outer = this.end;
    this.end = this.stop;
    this.stop = this.start;
    return outer;
  }

  /** Goes on behind a message that was walked over. */
  leave(outer: number): void {
    this.stop = this.end;
    this.end = outer;
  }

  /** Adds the numbers of a list, packed or not. */
  uint32s(into: number[]): void {
    if (this.wire === VARINT) {
      into.push(this.uint32());
      return;
    }
    this.expect(BYTES);
    let at = this.start;
    while (at < this.stop) {
      const start = at;
      at = endOfVarint(this.bytes, at, this.stop);
      into.push(varint32(this.bytes, start, at));
    }
  }

  expect(wire: number): void {
    if (this.wire !== wire) {
      throw new Malformed(`field ${String(this.number)} has another type`);
    }
  }

  /** Fails unless the value is a text in UTF-8. */
  checkText(): void {
    this.expect(BYTES);
    const { bytes, start, stop } = this;
    for (let at = start; at < stop; at += 1) {
      if ((bytes[at] ?? 0) > 0x7f) {
        if (!isUtf8(bytes.subarray(start, stop))) {
          throw new Malformed('a text is not UTF-8');
        }
        return;
      }
    }
  }

  /** A varint at `start`, which moves behind it: a tag or a length. */
  private length(): number {
    const { bytes, end } = this;
    let at = this.start;
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = bytes[at];
      if (byte === undefined || at >= end || factor > 2 ** 35) {
        throw broken();
      }
      at += 1;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        this.start = at;
        return value;
      }
      factor *= 128;
    }
  }
}

/** Longer texts are rarely equal to others. */
const MAX_KNOWN_TEXT = 32;

/** Short ASCII texts, each at a place that follows from its bytes: those of thousands of rows are mostly the same few. */
const knownTexts: string[] = new Array<string>(4_096).fill('');

/** A text in UTF-8. */
export function textAt(bytes: Buffer, start: number, stop: number): string {
  const length = stop - start;
  if (length === 0 || length > MAX_KNOWN_TEXT) {
    return length === 0 ? '' : bytes.toString('utf8', start, stop);
  }
  let hash = length;
  for (let at = start; at < stop; at += 1) {
    hash = (Math.imul(hash, 31) + (bytes[at] ?? 0)) | 0;
  }
  const place = (hash ^ (hash >>> 12)) & (knownTexts.length - 1);
  const known = knownTexts[place] ?? '';
  if (isTextAt(known, bytes, start, length)) {
    return known;
  }
  const text = bytes.toString('utf8', start, stop);
  knownTexts[place] = text;
  return text;
}

/** Whether the bytes are this text, which is false for all that are not ASCII. */
function isTextAt(text: string, bytes: Buffer, start: number, length: number): boolean {
  if (text.length !== length) {
    return false;
  }
  for (let at = 0; at < length; at += 1) {
    const byte = bytes[start + at] ?? 0;
    if (byte > 0x7f || text.charCodeAt(at) !== byte) {
      return false;
    }
  }
  return true;
}

/** Compares two ranges of bytes. */
export function compareRanges(bytes: Buffer, a: Range, b: Range): number {
  const length = Math.min(a.stop - a.start, b.stop - b.start);
  for (let at = 0; at < length; at += 1) {
    const difference = (bytes[a.start + at] ?? 0) - (bytes[b.start + at] ?? 0);
    if (difference !== 0) {
      return difference;
    }
  }
  return a.stop - a.start - (b.stop - b.start);
}

/** Where a value is in the bytes of a message. */
export interface Range {
  readonly start: number;
  readonly stop: number;
}

function endOfVarint(bytes: Buffer, start: number, end: number): number {
  for (let at = start; at < end && at < start + 10; at += 1) {
    if ((bytes[at] ?? 0) < 0x80) {
      return at + 1;
    }
  }
  throw broken();
}

function varint32(bytes: Buffer, start: number, stop: number): number {
  let value = 0;
  for (let at = start, shift = 0; at < stop && shift < 35; at += 1, shift += 7) {
    value |= ((bytes[at] ?? 0) & 0x7f) << shift;
  }
  return value >>> 0;
}

function varint64(bytes: Buffer, start: number, stop: number): bigint {
  // Up to 49 bits are exact as a number, which is faster.
  if (stop - start <= 7) {
    let value = 0;
    for (let at = stop - 1; at >= start; at -= 1) {
      value = value * 128 + ((bytes[at] ?? 0) & 0x7f);
    }
    return BigInt(value);
  }
  let value = 0n;
  for (let at = stop - 1; at >= start; at -= 1) {
    value = (value << 7n) | BigInt((bytes[at] ?? 0) & 0x7f);
  }
  return value;
}

/** The error of bytes that are no protobuf. */
function broken(): Malformed {
  return new Malformed('it ends inside a field, or has a field that proto3 does not know');
}
