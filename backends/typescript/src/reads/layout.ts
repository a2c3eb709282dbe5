/** A declaration as both sides of a call use it: the contract's message, and where each value is. */

import { sha256 } from '../digest.js';
import {
  type MapReads,
  NodeReads,
  type NodePart as NodePartNumber,
  PodReads,
  type PodPart as PodPartNumber,
  Reads as ReadsMessage,
} from '../gen/extender/policy/v1beta1/info.js';
import type { RowTerms } from '../row.js';
import type { MapName } from './key.js';
import { INCLUDED_PARTS, NODE_PARTS } from './parts.js';
import type { DeclaredKeys, Places } from './places.js';
import { podCountReads, type PodsBy, type SentCount, type SentTopology, type TopologyKey } from './pods.js';

/** What is declared of one kind of object. */
export interface Declared {
  /** All facts and all labels, whose prefix is then among the declared ones. */
  readonly isEverything: boolean;
  /** With those that everything includes. */
  readonly parts: Set<number>;
  readonly label: DeclaredKeys;
  readonly annotation: DeclaredKeys;
}

/** What is sent of one kind of object. */
export class Sent {
  /** With those that everything includes. */
  readonly parts: ReadonlySet<number>;
  readonly labels: Places;
  readonly annotations: Places;
  private readonly isEverything: boolean;
  private readonly byId: ReadonlyMap<string, SentCount>;
  private readonly byTopology: ReadonlyMap<string, SentTopology>;

  constructor(
    readonly object: 'pod' | 'node',
    declared: Declared,
    /** Of nodes alone. Ascending. */
    readonly pods: readonly SentCount[],
    /** Of the pod to be placed alone. Ascending. */
    readonly topologies: readonly SentTopology[],
  ) {
    this.parts = new Set(declared.parts);
    this.labels = declared.label.places();
    this.annotations = declared.annotation.places();
    this.isEverything = declared.isEverything;
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

  /** What the contract's messages about pods and nodes have in common. What everything includes is not repeated. */
  message(): {
    parts: number[];
    labels: MapReads | undefined;
    annotations: MapReads | undefined;
    everything: boolean;
  } {
    const isRepeated = (part: number): boolean => this.isEverything && INCLUDED_PARTS[this.object].has(part);
    return {
      parts: [...this.parts].filter((part) => !isRepeated(part)).toSorted((a, b) => a - b),
      labels: this.isEverything ? undefined : this.labels.message(),
      annotations: this.annotations.message(),
      everything: this.isEverything,
    };
  }
}

/** A compiled declaration without mistakes. */
export class Layout {
  /** As in the handshake. */
  readonly message: ReadsMessage;
  /** Of the message: what `Call.reads` is in requests that are made for it. */
  readonly digest: Buffer;
  /** What is read of nodes, as the rows of a table have it, for comparison. */
  readonly rowsKey: string;
  /** What each row has. */
  readonly row: RowTerms;

  constructor(
    readonly pod: Sent,
    readonly node: Sent,
  ) {
    const ofPod = pod.message();
    const podReads = PodReads.fromPartial({
      ...ofPod,
      parts: ofPod.parts as PodPartNumber[],
      topologyCounts: pod.topologies.map(({ topology, requests }) => ({
        by: topology.by.by,
        label: topology.by.key,
        topologyKey: topology.key,
        requests,
      })),
    });
    const ofNode = node.message();
    const nodeReads = NodeReads.fromPartial({
      ...ofNode,
      parts: ofNode.parts as NodePartNumber[],
      podCounts: node.pods.map(podCountReads),
    });
    this.rowsKey = rowsKey(nodeReads);
    this.row = rowTerms(nodeReads);
    this.message = {
      pod: PodReads.encode(podReads).finish().length === 0 ? undefined : podReads,
      node: this.rowsKey === '' ? undefined : nodeReads,
    };
    this.digest = sha256(ReadsMessage.encode(this.message).finish());
  }
}

/** What each row has that is encoded with this declaration. A row with more than a name has facts, if empty. */
export function rowTerms({ everything, parts, labels, annotations, podCounts }: NodeReads): RowTerms {
  const hasMore = parts.some((part) => part !== NODE_PARTS.name);
  return {
    name: everything || parts.includes(NODE_PARTS.name),
    facts: everything || hasMore || selects(labels) || selects(annotations) || podCounts.length > 0,
    labels: labels?.keys.length ?? 0,
    annotations: annotations?.keys.length ?? 0,
    pods: podCounts.length,
  };
}

function selects(map: MapReads | undefined): boolean {
  return map !== undefined && map.keys.length + map.prefixes.length > 0;
}

/** What the rows of a table contain, for comparison. */
export function rowsKey(reads: NodeReads): string {
  return Buffer.from(NodeReads.encode(reads).finish()).toString('latin1');
}
