/** What the gateway sends of pods and nodes to a verb, for tests of policies. */

import type { Terms } from '../declaration.js';
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
import type { Sent } from '../reads/layout.js';
import { NODE_PARTS, POD_PARTS } from '../reads/parts.js';
import type { Places } from '../reads/places.js';
import type { Attribute, PodsBy, SentCount, SentTopology } from '../reads/pods.js';
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

/** The row of a node. */
export function sentRow({ row, pods }: ClusterNode, terms: Terms): NodeRow {
  const { layout } = terms;
  if (layout === undefined) {
    return {
      ...row,
      usage: terms.wantsUsage ? row.usage : undefined,
      facts: terms.view === 'name' ? undefined : row.facts,
    };
  }
  const facts = terms.view === 'name' ? undefined : row.facts;
  return {
    name: terms.rowParts.name ? row.name : '',
    facts: facts && narrowed(facts, NodeFacts.create(), NODE_PARTS, layout.node),
    rawJson: terms.view === 'factsAndRaw' ? row.rawJson : new Uint8Array(),
    usage: terms.wantsUsage ? row.usage : undefined,
    podCounts: layout.node.pods.map((count) => countsOf(count, pods, reported(facts))),
  };
}

/** The pod to be placed on one of the nodes of the cluster. */
export function sentPod(
  pod: PodMessage,
  sent: Sent | undefined,
  cluster: readonly ClusterNode[],
): PodMessage {
  if (sent === undefined) {
    return pod;
  }
  const topologyCounts = sent.topologies.map((topology) => domainsOf(topology, pod, cluster));
  return { ...sentVictim(pod, sent), topologyCounts };
}

/** A pod that would be evicted. */
export function sentVictim(pod: PodMessage, sent: Sent | undefined): PodMessage {
  if (sent === undefined) {
    return pod;
  }
  return {
    identity: sent.parts.has(POD_PARTS.identity) ? pod.identity : undefined,
    facts: pod.facts && narrowed(pod.facts, PodFacts.create(), POD_PARTS, sent),
    rawJson: pod.rawJson,
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
  const kept = Object.entries(parts)
    .filter(([, number]) => sent.parts.has(number))
    .map(([part]) => (part === 'priorityClass' ? 'priorityClassName' : part))
    .filter((field) => field in none)
    .map((field) => [field, facts[field as keyof F]] as const);
  const labels = split(facts.labels, sent.labels);
  const annotations = split(facts.annotations, sent.annotations);
  return {
    ...none,
    ...Object.fromEntries(kept),
    labels: labels.entries,
    annotations: annotations.entries,
    labelValues: labels.values,
    annotationValues: annotations.values,
    absentLabels: labels.absent,
    absentAnnotations: annotations.absent,
  };
}

/** A map as values of declared keys, and entries with declared prefixes. */
interface Split {
  readonly values: string[];
  readonly absent: number[];
  readonly entries: Map<string, string>;
}

function split(map: ReadonlyMap<string, string>, places: Places): Split {
  return {
    values: places.keys.map((key) => map.get(key) ?? ''),
    absent: places.keys.flatMap((key, position) => (map.has(key) ? [] : [position])),
    entries: new Map(
      [...map].filter(([key]) => places.covers(key)).toSorted(([a], [b]) => compareBytes(a, b)),
    ),
  };
}

/** What a pod has of an attribute. */
function attributeOf(by: PodsBy, pod: PodMessage): Attribute | undefined {
  const view = Pod.of(pod, Access.everything);
  return view && by.of(view);
}

/** The names of the extended resources that a node reports. */
function reported(facts: NodeFacts | undefined): ReadonlySet<string> {
  return new Set([...(facts?.allocatable?.others.keys() ?? []), ...(facts?.capacity?.others.keys() ?? [])]);
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
    const value = key === '' ? '' : row.facts?.labels.get(key);
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
