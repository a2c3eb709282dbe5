/**
 * Enforces a declaration where the policy reads. A read that is not declared throws: any value would look like that of
 * an object without the label, and a policy that goes on with it might bind a pod or make a reservation.
 */

import type { Key, MapName } from './key.js';
import type { Sent } from './layout.js';
import type { NodePart, PodPart } from './parts.js';
import { NODE_PARTS, POD_PARTS } from './parts.js';
import { ENTRY, UNDECLARED } from './places.js';
import type { PodsBy, SentCount, SentTopology, TopologyKey } from './pods.js';

/** A policy read something that it does not declare. */
export class UndeclaredRead extends Error {
  override readonly name = 'UndeclaredRead';

  constructor(what: string, right: string) {
    super(`${what} is read and not declared; declare it with ${right}`);
  }
}

/** What a policy may read of an object. */
export class Access {
  /** Without a declaration everything is sent, labels and annotations in maps. */
  static readonly everything = new Access(undefined);

  constructor(
    private readonly declared: Sent | undefined,
    private readonly hasUsage = false,
  ) {}

  /** The place of the value of a key. */
  key(key: Key): number {
    if (this.declared === undefined) {
      return ENTRY;
    }
    const place = this.declared.places(key.map).of(key);
    return place === UNDECLARED ? this.undeclaredKey(key.map, key.text) : place;
  }

  /** The same for a key that is given as a text. */
  text(map: MapName, key: string): number {
    if (this.declared === undefined) {
      return ENTRY;
    }
    const place = this.declared.places(map).find(key);
    return place === UNDECLARED ? this.undeclaredKey(map, key) : place;
  }

  /** Entries whose key begins with this are read. */
  entries(map: MapName, prefix: string): void {
    if (this.declared !== undefined && !this.declared.places(map).covers(prefix)) {
      const { object } = this.declared;
      throw new UndeclaredRead(
        `${map}s of the ${object} that begin with ${JSON.stringify(prefix)}`,
        `Reads.${object}${capital(map)}s`,
      );
    }
  }

  /** A part of a node is read. */
  nodePart(part: NodePart): void {
    this.part(part, NODE_PARTS[part]);
  }

  /** A part of a pod is read. */
  podPart(part: PodPart): void {
    this.part(part, POD_PARTS[part]);
  }

  /** The usage of a node is read. */
  usage(): void {
    if (!this.hasUsage) {
      throw new UndeclaredRead('usage of the node', 'Verb.usage or Hook.usage');
    }
  }

  /** Where the pods are counted by this. */
  pods(by: PodsBy): SentCount {
    const sent = this.declared?.count(by);
    if (sent === undefined) {
      throw new UndeclaredRead('a count of pods', `Reads.podsBy(${by.toString()})${this.andReads()}`);
    }
    return sent;
  }

  /** Where the pods in the cluster are counted by this. */
  topology(topology: TopologyKey): SentTopology {
    const sent = this.declared?.topology(topology);
    if (sent === undefined) {
      throw new UndeclaredRead(
        'a count of pods by topology',
        `Reads.podsByTopology(${topology.toString()})${this.andReads()}`,
      );
    }
    return sent;
  }

  private part(name: string, number: number): void {
    if (this.declared !== undefined && !this.declared.parts.has(number)) {
      const { object } = this.declared;
      throw new UndeclaredRead(`${name} of the ${object}`, `Reads.${object}('${name}')`);
    }
  }

  private undeclaredKey(map: MapName, key: string): never {
    const object = this.declared?.object ?? 'node';
    throw new UndeclaredRead(
      `${map} ${JSON.stringify(key)} of the ${object}`,
      `Reads.${object}${capital(map)}`,
    );
  }

  private andReads(): string {
    return this.declared === undefined ? ' and Verb.reads' : '';
  }
}

/** The requests of counted pods are read. */
export function undeclaredRequests(counted: SentCount | SentTopology): never {
  const right =
    'topology' in counted ? `ByTopology(${counted.topology.toString()})` : `By(${counted.by.toString()})`;
  throw new UndeclaredRead('the sum of the requests of counted pods', `Reads.podsAndRequests${right}`);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
