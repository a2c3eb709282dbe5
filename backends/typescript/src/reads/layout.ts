/** A declaration as both sides of a call use it: the contract's message, and where each value is. */

import { sha256 } from '../digest.js';
import {
  NodeReads,
  type NodePart as NodePartNumber,
  PodReads,
  type PodPart as PodPartNumber,
  Reads as ReadsMessage,
} from '../gen/extender/policy/v1beta1/info.js';
import type { MapName } from './key.js';
import type { Places } from './places.js';
import { podCountReads, type PodsBy, type SentCount, type SentTopology, type TopologyKey } from './pods.js';

/** What is sent of one kind of object. */
export class Sent {
  private readonly byId: ReadonlyMap<string, SentCount>;
  private readonly byTopology: ReadonlyMap<string, SentTopology>;

  constructor(
    readonly object: 'pod' | 'node',
    readonly parts: ReadonlySet<number>,
    readonly labels: Places,
    readonly annotations: Places,
    /** Of nodes alone. Ascending. */
    readonly pods: readonly SentCount[],
    /** Of the pod to be placed alone. Ascending. */
    readonly topologies: readonly SentTopology[],
  ) {
    this.byId = new Map(pods.map((sent) => [sent.by.id, sent]));
    this.byTopology = new Map(topologies.map((sent) => [sent.topology.id, sent]));
  }

  places(map: MapName): Places {
    return map === 'label' ? this.labels : this.annotations;
  }

  /** The count of pods by this; undefined if it is not declared. */
  count(by: PodsBy): SentCount | undefined {
    return this.byId.get(by.id);
  }

  /** The counts of pods by this topology; undefined if they are not declared. */
  topology(topology: TopologyKey): SentTopology | undefined {
    return this.byTopology.get(topology.id);
  }

  /** The parts in ascending order. */
  partNumbers(): number[] {
    return [...this.parts].toSorted((a, b) => a - b);
  }
}

/** A compiled declaration without mistakes. */
export class Layout {
  /** As in the handshake. */
  readonly message: ReadsMessage;
  /** As in the view of a table of nodes, where nothing is not the same as no declaration. */
  readonly rows: NodeReads;
  /** Of the message: what `Call.reads` is in requests that are made for it. */
  readonly digest: Buffer;
  /** {@link rows} as bytes, for comparison. */
  readonly rowsKey: string;

  constructor(
    readonly pod: Sent,
    readonly node: Sent,
    /** A view of names has them, so they are not sent; what else is read with it is, for the gateway to reject. */
    namesOnly: boolean,
  ) {
    const podReads = PodReads.fromPartial({
      parts: pod.partNumbers() as PodPartNumber[],
      labels: pod.labels.message(),
      annotations: pod.annotations.message(),
      topologyCounts: pod.topologies.map(({ topology, requests }) => ({
        by: topology.by.by,
        label: topology.by.key,
        topologyKey: topology.key,
        requests,
      })),
    });
    this.rows = NodeReads.fromPartial({
      parts: node.partNumbers() as NodePartNumber[],
      labels: node.labels.message(),
      annotations: node.annotations.message(),
      podCounts: node.pods.map(podCountReads),
    });
    this.rowsKey = rowsKey(this.rows);
    this.message = {
      pod: PodReads.encode(podReads).finish().length === 0 ? undefined : podReads,
      node: namesOnly || this.rowsKey === '' ? undefined : this.rows,
    };
    this.digest = sha256(ReadsMessage.encode(this.message).finish());
  }
}

/** What the rows of a table contain, for comparison. */
export function rowsKey(reads: NodeReads): string {
  return Buffer.from(NodeReads.encode(reads).finish()).toString('latin1');
}
