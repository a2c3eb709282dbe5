/**
 * The keys and prefixes of one map, as they are declared and as they are sent: the contract wants keys in ascending
 * order and none that a prefix covers.
 */

import type { MapReads } from '../gen/extender/policy/v1beta1/info.js';
import { compareBytes } from '../text.js';
import type { Key } from './key.js';

/** The place of a key that is not declared. */
export const UNDECLARED = -2;

/** The place of a key that a prefix covers: in the map. A place of 0 or more is a position among the values. */
export const ENTRY = -1;

/** As declared. */
export class DeclaredKeys {
  /** Each with its place in the order of declarations. */
  private readonly keys = new Map<string, number>();
  private readonly prefixes = new Set<string>();

  key(text: string): number {
    const order = this.keys.get(text) ?? this.keys.size;
    this.keys.set(text, order);
    return order;
  }

  prefix(text: string): void {
    this.prefixes.add(text);
  }

  copy(): DeclaredKeys {
    const copy = new DeclaredKeys();
    this.keys.forEach((order, text) => copy.keys.set(text, order));
    this.prefixes.forEach((text) => copy.prefixes.add(text));
    return copy;
  }

  places(): Places {
    return new Places([...this.keys.keys()], [...this.prefixes]);
  }
}

/** As sent. */
export class Places {
  /** The keys of the values, ascending. */
  readonly keys: readonly string[];
  /** Ascending; none begins with another one. */
  readonly prefixes: readonly string[];
  private readonly positions: ReadonlyMap<string, number>;
  /** Of each declared key, in the order of declarations. */
  private readonly places: readonly number[];

  constructor(
    private readonly declared: readonly string[],
    prefixes: readonly string[],
  ) {
    const shortest: string[] = [];
    for (const prefix of prefixes.toSorted(compareBytes)) {
      if (!shortest.some((before) => prefix.startsWith(before))) {
        shortest.push(prefix);
      }
    }
    this.prefixes = shortest;
    this.keys = declared.filter((key) => !this.covers(key)).toSorted(compareBytes);
    this.positions = new Map(this.keys.map((key, position) => [key, position]));
    this.places = declared.map((key) => this.find(key));
  }

  /** The place of the value of a key that a declaration returned. */
  of(key: Key): number {
    if (this.declared[key.order] === key.text) {
      return this.places[key.order] ?? UNDECLARED;
    }
    return this.find(key.text);
  }

  /** The place of the value of a key. */
  find(key: string): number {
    const position = this.positions.get(key);
    if (position !== undefined) {
      return position;
    }
    return this.covers(key) ? ENTRY : UNDECLARED;
  }

  /** Whether all keys with this beginning are sent with their values. */
  covers(prefix: string): boolean {
    return this.prefixes.some((covering) => prefix.startsWith(covering));
  }

  message(): MapReads | undefined {
    const isEmpty = this.keys.length === 0 && this.prefixes.length === 0;
    return isEmpty ? undefined : { keys: [...this.keys], prefixes: [...this.prefixes] };
  }
}
