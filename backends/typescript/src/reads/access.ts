/**
 * Enforces a declaration where the policy reads. A read that is not declared throws: any value would look like that of
 * an object without the label, and a policy that goes on with it might bind a pod or make a reservation.
 */

import type { Key, MapName } from './key.js';
import type { Sent } from './layout.js';
import type { NodePart, PodPart } from './parts.js';
import { NODE_PARTS, POD_PARTS } from './parts.js';
import { UNDECLARED } from './places.js';
import type { PodsBy, SentCount, SentTopology, TopologyKey } from './pods.js';

/** A policy read something that it does not declare, or that a pure verb cannot read. */
export class UndeclaredRead extends Error {
  override readonly name = 'UndeclaredRead';
}

/** What a policy may read of an object. */
export class Access {
  constructor(
    private readonly declared: Sent,
    /** Whether the verb is pure. */
    private readonly isPure = false,
  ) {}

  /** The place of the value of a key. */
  key(key: Key): number {
    const place = this.declared.places(key.map).of(key);
    return place === UNDECLARED ? this.undeclaredKey(key.map, key.text) : place;
  }

  /** The same for a key that is given as a text. */
  text(map: MapName, key: string): number {
    const place = this.declared.places(map).find(key);
    return place === UNDECLARED ? this.undeclaredKey(map, key) : place;
  }

  /** Entries whose key begins with this are read. */
  entries(map: MapName, prefix: string): void {
    if (!this.declared.places(map).covers(prefix)) {
      const { object } = this.declared;
      undeclared(
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

  /** Where the pods are counted by this. */
  pods(by: PodsBy): SentCount {
    const sent = this.declared.count(by);
    if (sent === undefined) {
      undeclared('a count of pods', `Reads.podsBy(${by.toString()})`);
    }
    return sent;
  }

  /** Where the pods in the cluster are counted by this. */
  topology(topology: TopologyKey): SentTopology {
    const sent = this.declared.topology(topology);
    if (sent === undefined) {
      undeclared('a count of pods by topology', `Reads.podsByTopology(${topology.toString()})`);
    }
    return sent;
  }

  /** The id of the call is read. */
  callId(): void {
    if (this.isPure) {
      throw new UndeclaredRead(
        'callId is another one in each call, which a pure verb cannot read; declare the verb without pure()',
      );
    }
  }

  private part(name: string, number: number): void {
    const { object, parts } = this.declared;
    if (!parts.has(number)) {
      undeclared(`${name} of the ${object}`, `Reads.${object}('${name}')`);
    }
  }

  private undeclaredKey(map: MapName, key: string): never {
    const { object } = this.declared;
    undeclared(`${map} ${JSON.stringify(key)} of the ${object}`, `Reads.${object}${capital(map)}`);
  }
}

/** The requests of counted pods are read. */
export function undeclaredRequests(counted: SentCount | SentTopology): never {
  const right =
    'topology' in counted ? `ByTopology(${counted.topology.toString()})` : `By(${counted.by.toString()})`;
  undeclared('the sum of the requests of counted pods', `Reads.podsAndRequests${right}`);
}

function undeclared(what: string, right: string): never {
  throw new UndeclaredRead(`${what} is read and not declared; declare it with ${right}`);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
