/** What the gateway sends of pods and nodes to a verb, for tests of policies. */

import type { MapValues } from '../gen/extender/policy/v1beta1/map.js';
import {
  NodeFacts,
  type NodeRow,
  type PodCount,
  type PodCounts,
} from '../gen/extender/policy/v1beta1/node.js';
import type { Pod as PodMessage } from '../gen/extender/policy/v1beta1/pod.js';
import { type DomainCount, PodFacts, type TopologyCounts } from '../gen/extender/policy/v1beta1/pod.js';
import { Resources } from '../gen/extender/policy/v1beta1/resources.js';
import { COUNTED_VALUE_BYTES, DOMAINS, NODE_COUNTS } from '../limits.js';
import { Pod } from '../pod.js';
import { Access } from '../reads/access.js';
import type { Layout, Sent } from '../reads/layout.js';
import { NODE_PARTS, type NodePart, POD_PARTS, type PodPart } from '../reads/parts.js';
import type { Places } from '../reads/places.js';
import type { Attribute, PodsBy, SentCount, SentTopology } from '../reads/pods.js';
import { Reads } from '../reads.js';
import { attributeKey } from '../row.js';
import { compareBytes } from '../text.js';

const MAX_INT64 = 2n ** 63n - 1n;

/** Equal pods on a node. */
export interface Running {
  readonly pod: PodMessage;
  readonly pods: number;
  /** How many of them are being deleted. */
  readonly terminating: number;
}

/** A node of the cluster. */
export interface ClusterNode {
  readonly row: NodeRow;
  readonly pods: readonly Running[];
}

/** What a count reads of a pod. */
const COUNTED = new Access(Reads.everything().layout().pod);

/** The fields of facts that are sent also if they are not set. */
const DEFAULTS: Partial<NodeFacts & PodFacts> = { unschedulable: false, priority: 0 };

/** The row of a node. */
export function sentRow({ row, pods }: ClusterNode, { row: terms, node: sent }: Layout): NodeRow {
  const has = (part: NodePart): boolean => sent.parts.has(NODE_PARTS[part]);
  const facts = row.facts ?? NodeFacts.create();
  return {
    name: terms.name ? row.name : '',
    facts: terms.facts ? narrowed(facts, NodeFacts.create(), NODE_PARTS, sent) : undefined,
    rawJson: has('rawJson') ? row.rawJson : new Uint8Array(),
    usage: has('usage') ? row.usage : undefined,
    nominated: has('nominated') ? row.nominated : undefined,
    podCounts: sent.pods.map((count) => countsOf(count, pods, reported(facts))),
  };
}

/** The pod to be placed on one of the nodes of the cluster. */
export function sentPod(pod: PodMessage, sent: Sent, cluster: readonly ClusterNode[]): PodMessage {
  const topologyCounts = sent.topologies.map((topology) => domainsOf(topology, pod, cluster));
  return { ...sentVictim(pod, sent), topologyCounts };
}

/** A pod that would be evicted. */
export function sentVictim(pod: PodMessage, sent: Sent): PodMessage {
  const has = (part: PodPart): boolean => sent.parts.has(POD_PARTS[part]);
  return {
    identity: has('identity') ? pod.identity : undefined,
    facts: pod.facts && narrowed(pod.facts, PodFacts.create(), POD_PARTS, sent),
    rawJson: has('rawJson') ? pod.rawJson : new Uint8Array(),
    topologyCounts: [],
  };
}

/**
 * The declared parts of facts, each of which but one has the name of its field, and of labels and annotations the values
 * of declared keys, and the entries with declared prefixes.
 */
function narrowed<F extends NodeFacts | PodFacts>(
  facts: F,
  none: F,
  parts: Record<string, number>,
  sent: Sent,
): F {
  const defaults = DEFAULTS as Partial<F>;
  const kept = Object.entries(parts)
    .filter(([, number]) => sent.parts.has(number))
    .map(([part]) => (part === 'priorityClass' ? 'priorityClassName' : part) as keyof F)
    .filter((field) => field in none)
    .map((field) => [field, facts[field] ?? defaults[field]] as const);
  return {
    ...none,
    ...Object.fromEntries(kept),
    labels: sentMap(facts.labels, sent.labels),
    annotations: sentMap(facts.annotations, sent.annotations),
  };
}

/** The values of declared keys, and the entries with declared prefixes; undefined if there is nothing of either. */
function sentMap(given: MapValues | undefined, places: Places): MapValues | undefined {
  const map: ReadonlyMap<string, string> = given?.entries ?? new Map();
  const entries = [...map].filter(([key]) => places.covers(key)).toSorted(([a], [b]) => compareBytes(a, b));
  if (places.keys.length === 0 && entries.length === 0) {
    return undefined;
  }
  return {
    values: places.keys.map((key) => map.get(key) ?? ''),
    absent: places.keys.flatMap((key, position) => (map.has(key) ? [] : [position])),
    entries: new Map(entries),
  };
}

/** What a pod has of an attribute. */
function attributeOf(by: PodsBy, pod: PodMessage): Attribute | undefined {
  const view = Pod.of(pod, COUNTED);
  return view && by.of(view);
}

/** The names of the extended resources that a node reports. */
function reported({ allocatable, capacity }: NodeFacts): ReadonlySet<string> {
  return new Set([...(allocatable?.others.keys() ?? []), ...(capacity?.others.keys() ?? [])]);
}

function countsOf(sent: SentCount, running: readonly Running[], extended: ReadonlySet<string>): PodCounts {
  const counts = new Map<string, PodCount>();
  for (const equal of running) {
    const attribute = attributeOf(sent.by, equal.pod);
    if (attribute !== undefined && equal.pods > 0) {
      const key = attributeKey(attribute.namespace, attribute.value);
      const before = counts.get(key) ?? { ...attribute, pods: 0, terminating: 0, requested: undefined };
      counts.set(key, {
        ...before,
        ...added(before, equal),
        requested: sent.requests ? sum(before.requested, equal, (name) => extended.has(name)) : undefined,
      });
    }
  }
  return limitedCounts([...counts.values()]);
}

function added(
  before: { readonly pods: number; readonly terminating: number },
  equal: Running,
): { pods: number; terminating: number } {
  return { pods: before.pods + equal.pods, terminating: before.terminating + equal.terminating };
}

function sum(before: Resources | undefined, equal: Running, isSent: (name: string) => boolean): Resources {
  const total = Resources.create(before);
  const requests = equal.pod.facts?.requests ?? Resources.create();
  const add = (a: bigint, b: bigint): bigint => {
    const added = a + b * BigInt(equal.pods);
    return added > MAX_INT64 ? MAX_INT64 : added;
  };
  const others = new Map(total.others);
  for (const [name, amount] of requests.others) {
    if (isSent(name)) {
      others.set(name, add(others.get(name) ?? 0n, amount));
    }
  }
  return {
    milliCpu: add(total.milliCpu, requests.milliCpu),
    memory: add(total.memory, requests.memory),
    ephemeralStorage: add(total.ephemeralStorage, requests.ephemeralStorage),
    pods: 0n,
    others,
  };
}

/** Without long values, and of too many those with the most pods, in order. */
function limitedCounts(all: PodCount[]): PodCounts {
  const short = all.filter(({ value }) => Buffer.byteLength(value) <= COUNTED_VALUE_BYTES);
  const counts = most(short, NODE_COUNTS).toSorted(
    (a, b) => compareBytes(a.namespace, b.namespace) || compareBytes(a.value, b.value),
  );
  return { counts, omittedPods: total(all) - total(counts) };
}

function most<C extends { readonly pods: number }>(counts: readonly C[], limit: number): C[] {
  return counts.toSorted((a, b) => b.pods - a.pods).slice(0, limit);
}

function total(counts: readonly { readonly pods: number }[]): number {
  return counts.reduce((sum, { pods }) => sum + pods, 0);
}

function domainsOf(sent: SentTopology, pod: PodMessage, cluster: readonly ClusterNode[]): TopologyCounts {
  const { by, key } = sent.topology;
  const wanted = attributeOf(by, pod);
  const domains = new Map<string, DomainCount>();
  if (wanted === undefined) {
    return { domains: [], omittedPods: 0 };
  }
  const requested = pod.facts?.requests?.others;
  for (const { row, pods } of cluster) {
    const value = key === '' ? '' : row.facts?.labels?.entries.get(key);
    for (const equal of value === undefined ? [] : pods) {
      const attribute = attributeOf(by, equal.pod);
      const isLike = attribute?.namespace === wanted.namespace && attribute.value === wanted.value;
      if (isLike && equal.pods > 0 && value !== undefined) {
        const before = domains.get(value) ?? { value, pods: 0, terminating: 0, requested: undefined };
        domains.set(value, {
          ...before,
          ...added(before, equal),
          requested: sent.requests
            ? sum(before.requested, equal, (name) => requested?.has(name) === true)
            : undefined,
        });
      }
    }
  }
  const all = [...domains.values()];
  const kept = most(all, DOMAINS);
  return {
    domains: kept.toSorted((a, b) => compareBytes(a.value, b.value)),
    omittedPods: total(all) - total(kept),
  };
}
