/**
 * One node of a request or of a table: a NodeRow that is checked on arrival and stays encoded. What a policy reads is
 * decoded at its first use and kept, for as long as the row is: in a table until the node changes.
 */

import {
  NodeAddress,
  NodeImage,
  NodeUsage as UsageMessage,
  PodCounts,
  SystemInfo,
} from './gen/extender/policy/v1beta1/node.js';
import { Resources as ResourcesMessage } from './gen/extender/policy/v1beta1/resources.js';
import type { MapName } from './reads/key.js';
import { decode } from './request.js';
import type { NodeUsage, Resources, Taint } from './resources.js';
import { NO_NON_ZERO, NO_RESOURCES } from './resources.js';
import { BYTES, Fields, Malformed, VARINT } from './wire.js';

/** What each row has, as it is declared. */
export interface RowTerms {
  readonly name: boolean;
  readonly facts: boolean;
  /** How many values of labels. */
  readonly labels: number;
  /** How many values of annotations. */
  readonly annotations: number;
  /** How many lists of counts of pods. */
  readonly pods: number;
}

/** Pods on a node with one attribute. */
export interface RowCount {
  readonly namespace: string;
  readonly value: string;
  readonly pods: number;
  readonly terminating: number;
  readonly requested: Resources;
}

/** The counts by one attribute. */
export interface RowCountList {
  readonly counts: readonly RowCount[];
  readonly omittedPods: number;
  /** By namespace and value. */
  readonly byAttribute: ReadonlyMap<string, RowCount>;
}

/** A number, a text, bytes, numbers of 32 bits, or a message. */
type Kind = 'number' | 'text' | 'bytes' | 'packed' | Shape;

/** The fields of a message: the first has number 1. Other fields are skipped, as those of later versions. */
type Shape = readonly (Kind | undefined)[];

const TEXTS: Shape = ['text', 'text'];
const RESOURCES: Shape = ['number', 'number', 'number', 'number', ['text', 'number']];
const MAP_VALUES: Shape = ['text', 'packed', TEXTS];
const SYSTEM_INFO: Shape = ['text', 'text', 'text', 'text', 'text', 'text'];
const FACTS: Shape = [
  undefined,
  undefined,
  ['text', 'text', 'text'],
  'number',
  TEXTS,
  RESOURCES,
  RESOURCES,
  undefined,
  undefined,
  undefined,
  undefined,
  MAP_VALUES,
  MAP_VALUES,
  ['text', 'number'],
  SYSTEM_INFO,
  TEXTS,
  'text',
];
const USAGE: Shape = [RESOURCES, ['number', 'number']];
const POD_COUNT: Shape = ['text', 'text', 'number', 'number', RESOURCES];
const POD_COUNTS: Shape = [POD_COUNT, 'number'];
const ROW: Shape = ['text', FACTS, 'bytes', USAGE, POD_COUNTS];

/** Fails if a message is not what its shape says, at any depth. */
function check(fields: Fields, shape: Shape): void {
  while (fields.next()) {
    const kind = shape[fields.number - 1];
    if (kind !== undefined) {
      checkValue(fields, kind);
    }
  }
}

function checkValue(fields: Fields, kind: Kind): void {
  switch (kind) {
    case 'number':
      fields.expect(VARINT);
      break;
    case 'text':
      fields.checkText();
      break;
    case 'bytes':
      fields.expect(BYTES);
      break;
    case 'packed':
      fields.uint32s([]);
      break;
    default:
      check(fields.message(), kind);
  }
}

/** Values of declared keys, as they come. */
export interface Values {
  /** How many there are. */
  readonly count: number;
  /** Positions of the keys that the object lacks. */
  readonly absent: readonly number[];
}

/** The labels or annotations of a row. */
interface MapOfRow extends Values {
  count: number;
  readonly absent: number[];
  /** Where they are in the bytes: pairs of begin and end. */
  readonly at: number[];
}

/** A checked row. */
export class Row {
  /** Where the facts, the usage and the counts are in the bytes: pairs of begin and end. A message may come in pieces. */
  private facts: number[] | undefined;
  private usageAt: number[] | undefined;
  private podCountsAt: number[] | undefined;
  private nameAt: number[] | undefined;
  private rawAt: number[] | undefined;
  private readonly maps: Record<MapName, MapOfRow | undefined> = { label: undefined, annotation: undefined };
  /** How many taints, images and addresses there are: each can be many times as large decoded. */
  listed = 0;

  private decodedName: string | undefined;
  private decodedValues: Record<MapName, (string | undefined)[] | undefined> | undefined;
  private decodedMaps: Record<MapName | 'condition', Map<string, string> | undefined> | undefined;
  private decodedTaints: Taint[] | undefined;
  private decodedAmounts: { capacity: Resources | undefined; allocatable: Resources | undefined } | undefined;
  private decodedImages: NodeImage[] | undefined;
  private decodedSystemInfo: SystemInfo | undefined;
  private decodedAddresses: NodeAddress[] | undefined;
  private decodedUsage: NodeUsage | undefined;
  private decodedCounts: (RowCountList | undefined)[] | undefined;
  private decodedRaw: { readonly json: unknown } | undefined;

  private constructor(private readonly bytes: Buffer) {}

  /** Checks an encoded NodeRow, which must not change afterwards. */
  static read(bytes: Buffer): Row {
    const row = new Row(bytes);
    const fields = new Fields(bytes);
    while (fields.next()) {
      const kind = ROW[fields.number - 1];
      if (kind !== undefined) {
        checkValue(fields, kind);
        row.remember(fields);
      }
    }
    return row;
  }

  private remember(fields: Fields): void {
    const { start, stop } = fields;
    switch (fields.number) {
      case 1:
        this.nameAt = [start, stop];
        break;
      case 2:
        (this.facts ??= []).push(start, stop);
        this.rememberFacts(fields.message());
        break;
      case 3:
        this.rawAt = start === stop ? undefined : [start, stop];
        break;
      case 4:
        (this.usageAt ??= []).push(start, stop);
        break;
      case 5:
        checkAscending(fields.message(), (this.podCountsAt?.length ?? 0) / 2);
        (this.podCountsAt ??= []).push(start, stop);
        break;
    }
  }

  private rememberFacts(facts: Fields): void {
    while (facts.next()) {
      switch (facts.number) {
        case 12:
          this.rememberMap('label', facts);
          break;
        case 13:
          this.rememberMap('annotation', facts);
          break;
        case 3:
        case 14:
        case 16:
          this.listed += 1;
          break;
      }
    }
  }

  private rememberMap(name: MapName, fact: Fields): void {
    const map = (this.maps[name] ??= { count: 0, absent: [], at: [] });
    map.at.push(fact.start, fact.stop);
    countValues(map, fact.message());
  }

  /** The number of encoded bytes. */
  get size(): number {
    return this.bytes.length;
  }

  /** The number of encoded bytes of the facts, which are there twice when they are in use. */
  get factsSize(): number {
    return this.facts === undefined ? 0 : (this.facts.at(-1) ?? 0) - (this.facts[0] ?? 0);
  }

  /** metadata.name; empty if it is not sent. */
  get name(): string {
    return (this.decodedName ??= this.textAt(this.nameAt));
  }

  /**
   * What is wrong with it, as the end of a sentence that begins with the row: it lacks something on which a policy must be
   * able to rely because of the promise, or there is not a value for each declared key and a list for each declared count
   * of pods.
   */
  wrong(terms: RowTerms, promise: string): string | undefined {
    if (terms.name && (this.nameAt === undefined || this.nameAt[0] === this.nameAt[1])) {
      return `name is missing; ${promise}`;
    }
    if (terms.facts && this.facts === undefined) {
      return `facts is missing; ${promise}`;
    }
    const wrong =
      valuesMismatch('label', this.maps.label, terms.labels) ??
      valuesMismatch('annotation', this.maps.annotation, terms.annotations);
    if (wrong !== undefined) {
      return `facts.${wrong}`;
    }
    const given = (this.podCountsAt?.length ?? 0) / 2;
    return given === terms.pods
      ? undefined
      : `pod_counts has ${String(given)} entries, and ${String(terms.pods)} are declared`;
  }

  /** The value of the declared key at this position, if the node has it. */
  value(map: MapName, position: number): string | undefined {
    return this.values(map)[position];
  }

  private values(map: MapName): readonly (string | undefined)[] {
    const decoded = (this.decodedValues ??= { label: undefined, annotation: undefined });
    return (decoded[map] ??= this.decodeValues(map));
  }

  private decodeValues(map: MapName): (string | undefined)[] {
    const values: (string | undefined)[] = [];
    this.eachField(this.maps[map]?.at, (field) => {
      if (field.number === 1) {
        values.push(field.text());
      }
    });
    for (const position of this.maps[map]?.absent ?? []) {
      if (values[position] === '') {
        values[position] = undefined;
      }
    }
    return values;
  }

  /** The labels, annotations or conditions that are sent in a map. */
  map(name: MapName | 'condition'): ReadonlyMap<string, string> {
    const decoded = (this.decodedMaps ??= { label: undefined, annotation: undefined, condition: undefined });
    return (decoded[name] ??= this.decodeMap(name));
  }

  private decodeMap(name: MapName | 'condition'): Map<string, string> {
    const [at, number] = name === 'condition' ? [this.facts, 5] : [this.maps[name]?.at, 3];
    const map = new Map<string, string>();
    this.eachField(at, (field) => {
      if (field.number === number) {
        const [key, value] = texts(field.message());
        map.set(key, value);
      }
    });
    return map;
  }

  /** spec.taints, in order. */
  get taints(): readonly Taint[] {
    return (this.decodedTaints ??= this.decodeTaints());
  }

  private decodeTaints(): Taint[] {
    const taints: Taint[] = [];
    this.eachField(this.facts, (fact) => {
      if (fact.number === 3) {
        const [key, value, effect] = texts(fact.message());
        taints.push({ key, value, effect });
      }
    });
    return taints;
  }

  /** spec.unschedulable. */
  get isUnschedulable(): boolean {
    let is = false;
    this.eachField(this.facts, (fact) => {
      is = fact.number === 4 ? fact.bool() : is;
    });
    return is;
  }

  /** status.capacity and status.allocatable; undefined while they are not reported. */
  get amounts(): { readonly capacity: Resources | undefined; readonly allocatable: Resources | undefined } {
    return (this.decodedAmounts ??= this.decodeAmounts());
  }

  private decodeAmounts(): { capacity: Resources | undefined; allocatable: Resources | undefined } {
    return { capacity: this.fact(ResourcesMessage, 6), allocatable: this.fact(ResourcesMessage, 7) };
  }

  /** status.images, in order. */
  get images(): readonly NodeImage[] {
    return (this.decodedImages ??= this.factBytes(14).map((image) => decode(NodeImage, image)));
  }

  /** status.nodeInfo; undefined while it is not reported. */
  get systemInfo(): SystemInfo | undefined {
    return (this.decodedSystemInfo ??= this.fact(SystemInfo, 15));
  }

  /** status.addresses, in order. */
  get addresses(): readonly NodeAddress[] {
    return (this.decodedAddresses ??= this.factBytes(16).map((address) => decode(NodeAddress, address)));
  }

  /** spec.providerID. */
  get providerId(): string | undefined {
    const id = this.factBytes(17).at(-1)?.toString('utf8');
    return id === '' ? undefined : id;
  }

  /** What the pods on the node have requested; undefined if it is not sent. */
  get usage(): NodeUsage | undefined {
    if (this.usageAt === undefined) {
      return undefined;
    }
    return (this.decodedUsage ??= this.decodeUsage(this.usageAt));
  }

  private decodeUsage(at: readonly number[]): NodeUsage {
    const pieces: Buffer[] = [];
    for (let pair = 0; pair < at.length; pair += 2) {
      pieces.push(this.bytes.subarray(at[pair], at[pair + 1]));
    }
    const { requested = NO_RESOURCES, nonzero = NO_NON_ZERO } = decode(UsageMessage, Buffer.concat(pieces));
    return { requested, nonzero };
  }

  /** The counts at this position of a row with nothing {@link wrong}. */
  podCounts(position: number): RowCountList {
    const decoded = (this.decodedCounts ??= []);
    return (decoded[position] ??= this.decodeCounts(position));
  }

  private decodeCounts(position: number): RowCountList {
    const [start = 0, end = 0] = this.podCountsAt?.slice(2 * position, 2 * position + 2) ?? [];
    const list = decode(PodCounts, this.bytes.subarray(start, end));
    const counts = list.counts.map((count) => ({ ...count, requested: count.requested ?? NO_RESOURCES }));
    const byAttribute = new Map(counts.map((count) => [attributeKey(count.namespace, count.value), count]));
    return { counts, omittedPods: list.omittedPods, byAttribute };
  }

  /** The object's JSON, unchanged; undefined if it is not sent. */
  get rawJson(): Uint8Array | undefined {
    return this.rawAt === undefined ? undefined : this.bytes.subarray(this.rawAt[0], this.rawAt[1]);
  }

  /** The object that the JSON describes. */
  get raw(): unknown {
    if (this.rawAt === undefined) {
      return undefined;
    }
    this.decodedRaw ??= { json: JSON.parse(this.textAt(this.rawAt)) };
    return this.decodedRaw.json;
  }

  private textAt(at: readonly number[] | undefined): string {
    return at === undefined ? '' : this.bytes.toString('utf8', at[0], at[1]);
  }

  /** A fact that is a message. One that comes in pieces is what the pieces are one after the other. */
  private fact<T>(message: Parameters<typeof decode<T>>[0], number: number): T | undefined {
    const pieces = this.factBytes(number);
    return pieces.length === 0 ? undefined : decode(message, Buffer.concat(pieces));
  }

  /** The occurrences of a field of the facts. */
  private factBytes(number: number): Buffer[] {
    const found: Buffer[] = [];
    this.eachField(this.facts, (fact) => {
      if (fact.number === number) {
        found.push(fact.slice());
      }
    });
    return found;
  }

  /** Visits the fields of a message, at pairs of begin and end. */
  private eachField(at: readonly number[] | undefined, visit: (field: Fields) => void): void {
    for (let pair = 0; at !== undefined && pair < at.length; pair += 2) {
      const fields = new Fields(this.bytes, at[pair], at[pair + 1]);
      while (fields.next()) {
        visit(fields);
      }
    }
  }
}

/** Under which {@link RowCountList.byAttribute} has a count. */
export function attributeKey(namespace: string, value: string): string {
  return `${namespace}\0${value}`;
}

/** What is wrong with the values of an object; undefined if there is one for each key. */
export function valuesMismatch(map: MapName, values: Values | undefined, keys: number): string | undefined {
  const given = values?.count ?? 0;
  if (given !== keys) {
    return `${map}s.values has ${String(given)} values, and ${String(keys)} keys are declared`;
  }
  let least = 0;
  for (const position of values?.absent ?? []) {
    if (position < least || position >= keys) {
      return `${map}s.absent is not a list of ascending positions below ${String(keys)}`;
    }
    least = position + 1;
  }
  return undefined;
}

function countValues(into: MapOfRow, map: Fields): void {
  while (map.next()) {
    if (map.number === 1) {
      into.count += 1;
    } else if (map.number === 2) {
      map.uint32s(into.absent);
    }
  }
}

/** The first three fields of a message that has only texts there. */
function texts(fields: Fields): [string, string, string] {
  const found: [string, string, string] = ['', '', ''];
  while (fields.next()) {
    if (fields.number <= 3) {
      found[fields.number - 1] = fields.text();
    }
  }
  return found;
}

const NO_BYTES = Buffer.alloc(0);

/** Fails unless counts are in the order of the contract. */
function checkAscending(list: Fields, position: number): void {
  let before: readonly [Buffer, Buffer] | undefined;
  while (list.next()) {
    if (list.number === 1) {
      const attribute = attributeBytes(list.message());
      if (before !== undefined && compareAttributes(before, attribute) >= 0) {
        throw new Malformed(
          `pod_counts[${String(position)}].counts is not in ascending order of namespace and value, each once`,
        );
      }
      before = attribute;
    }
  }
}

function attributeBytes(count: Fields): readonly [Buffer, Buffer] {
  const attribute: [Buffer, Buffer] = [NO_BYTES, NO_BYTES];
  while (count.next()) {
    if (count.number <= 2) {
      attribute[count.number - 1] = count.slice();
    }
  }
  return attribute;
}

function compareAttributes(a: readonly [Buffer, Buffer], b: readonly [Buffer, Buffer]): number {
  return Buffer.compare(a[0], b[0]) || Buffer.compare(a[1], b[1]);
}
