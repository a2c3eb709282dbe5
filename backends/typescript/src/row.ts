/**
 * One node of a request or of a table: a NodeRow that is checked on arrival and stays encoded. What a policy reads is
 * decoded at its first use and kept, for as long as the row is: in a table until the node changes.
 */

import {
  NodeAddress,
  NodeImage,
  NodeUsage as UsageMessage,
  SystemInfo,
} from './gen/extender/policy/v1beta1/node.js';
import type { MapName } from './reads/key.js';
import { decode } from './request.js';
import type { NodeUsage, Resources, Taint } from './resources.js';
import { NO_NON_ZERO, NO_RESOURCES } from './resources.js';
import { BYTES, compareRanges, Fields, Malformed, type Range, textAt, VARINT } from './wire.js';

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

/** The pairs with another one. An array that begins empty would take room for many. */
function withRange(at: number[] | undefined, start: number, stop: number): number[] {
  if (at === undefined) {
    return [start, stop];
  }
  at.push(start, stop);
  return at;
}

/** Up to this many counts are looked through. */
const FEW_COUNTS = 8;

/** The counts by one attribute. */
export class RowCountList {
  private byAttribute: ReadonlyMap<string, RowCount> | undefined;

  constructor(
    readonly counts: readonly RowCount[],
    readonly omittedPods: number,
  ) {}

  /** The count of the pods with this attribute, if there is one. */
  find(namespace: string, value: string): RowCount | undefined {
    if (this.counts.length <= FEW_COUNTS) {
      return this.counts.find((count) => count.value === value && count.namespace === namespace);
    }
    this.byAttribute ??= new Map(
      this.counts.map((count) => [attributeKey(count.namespace, count.value), count]),
    );
    return this.byAttribute.get(attributeKey(namespace, value));
  }
}

/** A number, a text, or a message. */
type Kind = 'number' | 'text' | Shape;

/** The fields of a message: the first has number 1. Other fields are skipped, as those of later versions. */
type Shape = readonly (Kind | undefined)[];

const TEXTS: Shape = ['text', 'text'];
const RESOURCES: Shape = ['number', 'number', 'number', 'number', ['text', 'number']];
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
  undefined,
  undefined,
  ['text', 'number'],
  SYSTEM_INFO,
  TEXTS,
  'text',
];
const USAGE: Shape = [RESOURCES, ['number', 'number']];
const POD_COUNT: Shape = ['text', 'text', 'number', 'number', RESOURCES];

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
    default:
      checkMessage(fields, kind);
  }
}

/** Allocates nothing: rows are checked by the thousand. */
function checkMessage(fields: Fields, shape: Shape): void {
  const outer = fields.enter();
  check(fields, shape);
  fields.leave(outer);
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
  at: number[] | undefined;
}

/** A checked row. */
export class Row {
  /** Where the facts, the sums of requests and the counts are in the bytes: pairs of begin and end. A message may come in pieces. */
  private facts: number[] | undefined;
  private usageAt: number[] | undefined;
  private nominatedAt: number[] | undefined;
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
  private decodedCapacity: Resources | undefined;
  private decodedAllocatable: Resources | undefined;
  private decodedImages: NodeImage[] | undefined;
  private decodedSystemInfo: SystemInfo | undefined;
  private decodedAddresses: NodeAddress[] | undefined;
  private decodedUsage: NodeUsage | undefined;
  private decodedNominated: NodeUsage | undefined;
  private decodedCounts: (RowCountList | undefined)[] | undefined;
  private decodedRaw: { readonly json: unknown } | undefined;

  private constructor(private readonly bytes: Buffer) {}

  /** Checks an encoded NodeRow, which must not change afterwards. */
  static read(bytes: Buffer): Row {
    const row = new Row(bytes);
    const fields = new Fields(bytes);
    while (fields.next()) {
      row.readField(fields);
    }
    return row;
  }

  /** Checks a field, and remembers where it is. */
  private readField(fields: Fields): void {
    const { start, stop } = fields;
    switch (fields.number) {
      case 1:
        fields.checkText();
        this.nameAt = [start, stop];
        break;
      case 2:
        this.facts = withRange(this.facts, start, stop);
        this.readFacts(fields);
        break;
      case 3:
        fields.expect(BYTES);
        this.rawAt = start === stop ? undefined : [start, stop];
        break;
      case 4:
        this.usageAt = withRange(this.usageAt, start, stop);
        checkMessage(fields, USAGE);
        break;
      case 5:
        checkCounts(fields, (this.podCountsAt?.length ?? 0) / 2);
        this.podCountsAt = withRange(this.podCountsAt, start, stop);
        break;
      case 6:
        this.nominatedAt = withRange(this.nominatedAt, start, stop);
        checkMessage(fields, USAGE);
        break;
    }
  }

  private readFacts(fields: Fields): void {
    const outer = fields.enter();
    while (fields.next()) {
      const { number } = fields;
      if (number === 12 || number === 13) {
        this.readMap(number === 12 ? 'label' : 'annotation', fields);
        continue;
      }
      const kind = FACTS[number - 1];
      if (kind !== undefined) {
        checkValue(fields, kind);
      }
      if (number === 3 || number === 14 || number === 16) {
        this.listed += 1;
      }
    }
    fields.leave(outer);
  }

  private readMap(name: MapName, fields: Fields): void {
    const { start, stop } = fields;
    const map = (this.maps[name] ??= { count: 0, absent: [], at: undefined });
    map.at = withRange(map.at, start, stop);
    const outer = fields.enter();
    while (fields.next()) {
      switch (fields.number) {
        case 1:
          fields.checkText();
          map.count += 1;
          break;
        case 2:
          fields.uint32s(map.absent);
          break;
        case 3:
          checkMessage(fields, TEXTS);
          break;
      }
    }
    fields.leave(outer);
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
        const [key, value] = texts(field);
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
        const [key, value, effect] = texts(fact);
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

  /** status.capacity; undefined while it is not reported. */
  get capacity(): Resources | undefined {
    return (this.decodedCapacity ??= this.decodeResources(6));
  }

  /** status.allocatable; undefined while it is not reported. */
  get allocatable(): Resources | undefined {
    return (this.decodedAllocatable ??= this.decodeResources(7));
  }

  private decodeResources(number: number): Resources | undefined {
    let found: Resources | undefined;
    this.eachField(this.facts, (fact) => {
      if (fact.number === number) {
        found ??= { ...NO_RESOURCES, others: new Map() };
        readResources(found, fact);
      }
    });
    return found;
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
    return this.usageAt && (this.decodedUsage ??= this.decodeUsage(this.usageAt));
  }

  /** What the pods request that are nominated to the node; undefined if it is not sent. */
  get nominated(): NodeUsage | undefined {
    return this.nominatedAt && (this.decodedNominated ??= this.decodeUsage(this.nominatedAt));
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
    const start = this.podCountsAt?.[2 * position];
    const end = this.podCountsAt?.[2 * position + 1] ?? 0;
    const counts: RowCount[] = [];
    let omittedPods = 0;
    const list = new Fields(this.bytes, start, end);
    while (list.next()) {
      if (list.number === 1) {
        counts.push(countOf(list));
      } else if (list.number === 2) {
        omittedPods = list.uint32();
      }
    }
    return new RowCountList(counts, omittedPods);
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
    return at === undefined ? '' : textAt(this.bytes, at[0] ?? 0, at[1] ?? 0);
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

/** A namespace and a value as the key of a map. */
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

/** The first three fields of a message that has only texts there. */
function texts(fields: Fields): [string, string, string] {
  const found: [string, string, string] = ['', '', ''];
  const outer = fields.enter();
  while (fields.next()) {
    if (fields.number <= 3) {
      found[fields.number - 1] = fields.text();
    }
  }
  fields.leave(outer);
  return found;
}

/** Where the namespace and the value of a count are in the bytes. */
interface AttributeAt {
  readonly namespace: Range;
  readonly value: Range;
}

/** Fails unless a list of counts is what its shape says, in the order of the contract. */
function checkCounts(fields: Fields, position: number): void {
  const outer = fields.enter();
  let before: AttributeAt | undefined;
  while (fields.next()) {
    if (fields.number === 1) {
      const attribute = checkCount(fields);
      if (before !== undefined && compareAttributes(fields.bytes, before, attribute) >= 0) {
        throw new Malformed(
          `pod_counts[${String(position)}].counts is not in ascending order of namespace and value, each once`,
        );
      }
      before = attribute;
    } else if (fields.number === 2) {
      fields.expect(VARINT);
    }
  }
  fields.leave(outer);
}

const NOWHERE: Range = { start: 0, stop: 0 };

function checkCount(fields: Fields): AttributeAt {
  let namespace = NOWHERE;
  let value = NOWHERE;
  const outer = fields.enter();
  while (fields.next()) {
    const { number, start, stop } = fields;
    if (number === 1) {
      namespace = { start, stop };
    } else if (number === 2) {
      value = { start, stop };
    }
    const kind = POD_COUNT[number - 1];
    if (kind !== undefined) {
      checkValue(fields, kind);
    }
  }
  fields.leave(outer);
  return { namespace, value };
}

function compareAttributes(bytes: Buffer, a: AttributeAt, b: AttributeAt): number {
  return compareRanges(bytes, a.namespace, b.namespace) || compareRanges(bytes, a.value, b.value);
}

/** Adds the amounts of a message, which may come in pieces. Its texts are checked. */
function readResources(
  into: { -readonly [Field in keyof Resources]: Resources[Field] },
  fields: Fields,
): void {
  let others: Map<string, bigint> | undefined;
  const outer = fields.enter();
  while (fields.next()) {
    switch (fields.number) {
      case 1:
        into.milliCpu = fields.int64();
        break;
      case 2:
        into.memory = fields.int64();
        break;
      case 3:
        into.ephemeralStorage = fields.int64();
        break;
      case 4:
        into.pods = fields.int64();
        break;
      case 5:
        into.others = others ??= new Map(into.others);
        others.set(...amountOf(fields));
        break;
    }
  }
  fields.leave(outer);
}

function amountOf(entry: Fields): [name: string, amount: bigint] {
  const found: [string, bigint] = ['', 0n];
  const outer = entry.enter();
  while (entry.next()) {
    if (entry.number === 1) {
      found[0] = entry.text();
    } else if (entry.number === 2) {
      found[1] = entry.int64();
    }
  }
  entry.leave(outer);
  return found;
}

function countOf(fields: Fields): RowCount {
  const count = { namespace: '', value: '', pods: 0, terminating: 0, requested: NO_RESOURCES };
  const outer = fields.enter();
  while (fields.next()) {
    switch (fields.number) {
      case 1:
        count.namespace = fields.text();
        break;
      case 2:
        count.value = fields.text();
        break;
      case 3:
        count.pods = fields.uint32();
        break;
      case 4:
        count.terminating = fields.uint32();
        break;
      case 5:
        count.requested = { ...count.requested };
        readResources(count.requested, fields);
        break;
    }
  }
  fields.leave(outer);
  return count;
}
