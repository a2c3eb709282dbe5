/** The pod of a call as a policy sees it, and the pods in the cluster that are like it. */

import { PodCount, PodsLike } from './counts.js';
import type { MapValues } from './gen/extender/policy/v1beta1/map.js';
import type { Call } from './gen/extender/policy/v1beta1/policy.js';
import type {
  Container,
  NodeAffinity,
  OwnerReference,
  Pod as PodMessage,
  PodAffinity,
  PodFacts,
  ResourceClaim,
  Toleration,
  TopologyCounts,
  TopologySpreadConstraint,
  Volume,
} from './gen/extender/policy/v1beta1/pod.js';
import type { Node } from './node.js';
import type { Access } from './reads/access.js';
import type { MapName, PodKey, PodPrefix } from './reads/key.js';
import type { Sent } from './reads/layout.js';
import { ENTRY } from './reads/places.js';
import type { Attribute, SentTopology, TopologyKey } from './reads/pods.js';
import { NO_NON_ZERO, NO_RESOURCES, type NonZero, type Resources, type Taint } from './resources.js';
import { type Values, valuesMismatch } from './row.js';
import { compareBytes } from './text.js';

/**
 * The pod to be placed, or one that would be evicted. Reading anything else of it than the verb declares with
 * {@link Verb.reads} throws.
 */
export class Pod {
  private constructor(
    private readonly message: PodMessage,
    private readonly facts: PodFacts,
    private readonly access: Access,
    /** Undefined for victims. */
    private readonly call: Call | undefined,
  ) {}

  /** A view of a checked pod; undefined if it has no facts. @internal */
  static of(message: PodMessage, access: Access, call?: Call): Pod | undefined {
    return message.facts === undefined ? undefined : new Pod(message, message.facts, access, call);
  }

  /**
   * A name for the state of the nodes that this call is about, with their usage and counts of pods: equal for two calls of
   * one gateway about the same state, such as the filter and the score of a pod. To correlate calls, as in a log: an
   * answer must not depend on it. Undefined if there is none: kube-scheduler's call brought the nodes, a hook has changed
   * one of them, the verb is told only their names, or it is another one than filter, score and the hooks about nodes; and
   * for victims.
   */
  get snapshot(): string | undefined {
    return given(this.call?.snapshot);
  }

  /**
   * The cluster whose kube-scheduler calls, as the operator of the gateway named it; undefined if it has no name, and for
   * victims.
   */
  get cluster(): string | undefined {
    return given(this.call?.cluster);
  }

  /**
   * The id of the call, as in {@link Outcome.call}: to be kept with what the call changes outside. It is another one in each
   * call, so a pure verb or hook cannot read it: it throws {@link UndeclaredRead} there. Undefined for victims.
   */
  get callId(): string | undefined {
    this.access.callId();
    return this.call?.id;
  }

  /** The value of a declared label or annotation; undefined when the pod does not have it. */
  get(key: PodKey): string | undefined {
    return this.value(key.map, key.text, this.access.key(key));
  }

  /** The labels or annotations with a declared prefix, by key. */
  *entries(prefix: PodPrefix): IterableIterator<[key: string, value: string]> {
    this.access.entries(prefix.map, prefix.text);
    for (const entry of this.map(prefix.map)?.entries ?? NO_ENTRIES) {
      if (entry[0].startsWith(prefix.text)) {
        yield entry;
      }
    }
  }

  /** metadata.name; undefined if the pod has none yet. Declared as `identity`. */
  get name(): string | undefined {
    this.access.podPart('identity');
    return given(this.message.identity?.name);
  }

  /** metadata.uid; undefined if the pod has none yet. Declared as `identity`. */
  get uid(): string | undefined {
    this.access.podPart('identity');
    return given(this.message.identity?.uid);
  }

  /** metadata.creationTimestamp in seconds since 1970; undefined if the pod has none yet. Declared as `identity`. */
  get createdSeconds(): number | undefined {
    this.access.podPart('identity');
    const created = this.message.identity?.createdSeconds;
    return created === undefined ? undefined : Number(created);
  }

  /** metadata.namespace. */
  get namespace(): string {
    this.access.podPart('namespace');
    return this.facts.namespace;
  }

  /** The value of a label; undefined when the pod does not have it. */
  label(key: string): string | undefined {
    return this.value('label', key, this.access.text('label', key));
  }

  /** All labels: declared with {@link Reads.everything}, or by the prefix "". */
  get labels(): ReadonlyMap<string, string> {
    this.access.entries('label', '');
    return this.map('label')?.entries ?? NO_ENTRIES;
  }

  /** The value of an annotation; undefined when the pod does not have it. */
  annotation(key: string): string | undefined {
    return this.value('annotation', key, this.access.text('annotation', key));
  }

  /** The owner that is the controller, such as a ReplicaSet; undefined for a pod without one. */
  get owner(): Readonly<OwnerReference> | undefined {
    this.access.podPart('owner');
    return this.facts.owner;
  }

  /** spec.priority; 0 if not set, as in kube-scheduler. */
  get priority(): number {
    this.access.podPart('priority');
    return this.facts.priority ?? 0;
  }

  /** spec.priorityClassName; undefined if not set. */
  get priorityClass(): string | undefined {
    this.access.podPart('priorityClass');
    return given(this.facts.priorityClassName);
  }

  /** What the pod needs from a node, as kube-scheduler counts it. */
  get requests(): Resources {
    this.access.podPart('requests');
    return this.facts.requests ?? NO_RESOURCES;
  }

  /**
   * CPU and memory as kube-scheduler's scores count them: {@link requests}, but a container that requests none counts
   * with 100 thousandths of a CPU, and 200 MiB.
   */
  get nonzeroRequests(): NonZero {
    this.access.podPart('nonzeroRequests');
    return this.facts.nonzeroRequests ?? NO_NON_ZERO;
  }

  /** spec.tolerations, in order. */
  get tolerations(): readonly Readonly<Toleration>[] {
    this.access.podPart('tolerations');
    return this.facts.tolerations;
  }

  /**
   * Whether one of the pod's tolerations tolerates the taint. Mirrors `ToleratesTaint` of k8s.io/api/core/v1; operators
   * other than "Exists" and "Equal" tolerate nothing.
   */
  tolerates(taint: Taint): boolean {
    return this.tolerations.some((toleration) => bears(toleration, taint));
  }

  /** spec.nodeSelector. */
  get nodeSelector(): ReadonlyMap<string, string> {
    this.access.podPart('nodeSelector');
    return this.facts.nodeSelector;
  }

  /** spec.affinity.nodeAffinity, as written in the pod; undefined if the pod has none. */
  get nodeAffinity(): Readonly<NodeAffinity> | undefined {
    this.access.podPart('nodeAffinity');
    return this.facts.nodeAffinity;
  }

  /** spec.affinity.podAffinity and podAntiAffinity, as written in the pod; undefined if the pod has none. */
  get podAffinity(): Readonly<PodAffinity> | undefined {
    this.access.podPart('podAffinity');
    return this.facts.podAffinity;
  }

  /** spec.topologySpreadConstraints, in order. */
  get topologySpread(): readonly Readonly<TopologySpreadConstraint>[] {
    this.access.podPart('topologySpread');
    return this.facts.topologySpread;
  }

  /** spec.initContainers and spec.containers, in this order: of each the name, the image and the ports of its node. */
  get containers(): readonly Readonly<Container>[] {
    this.access.podPart('containers');
    return this.facts.containers;
  }

  /** spec.resourceClaims, in order. */
  get resourceClaims(): readonly Readonly<ResourceClaim>[] {
    this.access.podPart('resourceClaims');
    return this.facts.resourceClaims;
  }

  /** spec.volumes, in order, without the service account's volume. */
  get volumes(): readonly Readonly<Volume>[] {
    this.access.podPart('volumes');
    return this.facts.volumes;
  }

  /**
   * Names of the claims that the pod's volumes use, also those derived from the pod's name. Declared as `volumes` and
   * `identity`; a pure verb, which cannot declare that, reads {@link volumes}.
   */
  get claims(): readonly string[] {
    this.access.podPart('volumes');
    this.access.podPart('identity');
    const named = this.facts.volumes.map((volume) => volume.claim).filter((claim) => claim !== '');
    return [...named, ...(this.message.identity?.claims ?? [])];
  }

  /** spec.schedulerName; undefined if not set. */
  get schedulerName(): string | undefined {
    this.access.podPart('schedulerName');
    return given(this.facts.schedulerName);
  }

  /** spec.schedulingGroup.podGroupName; undefined if the pod is in no PodGroup. */
  get podGroupName(): string | undefined {
    this.access.podPart('podGroupName');
    return given(this.facts.podGroupName);
  }

  /** spec.runtimeClassName; undefined if not set. */
  get runtimeClassName(): string | undefined {
    this.access.podPart('runtimeClassName');
    return given(this.facts.runtimeClassName);
  }

  /** spec.preemptionPolicy, such as "Never"; undefined if not set, which means "PreemptLowerPriority". */
  get preemptionPolicy(): string | undefined {
    this.access.podPart('preemptionPolicy');
    return given(this.facts.preemptionPolicy);
  }

  /** spec.serviceAccountName; undefined if not set. */
  get serviceAccountName(): string | undefined {
    this.access.podPart('serviceAccountName');
    return given(this.facts.serviceAccountName);
  }

  /**
   * The pods in the cluster that are like this one: with the same owner, namespace, value of the label or priority
   * class, added up by topology, as the key declares. Undefined if the pod lacks that: a pod without a controller has no
   * siblings. Only of the pod to be placed.
   *
   * For many nodes it is cheaper to call this once, in {@link Policy.filterAll}.
   */
  podsLike(key: TopologyKey): Domains | undefined {
    const sent = this.access.topology(key);
    const attribute = key.by.of(this);
    // A victim has no counts, and verbs with victims declare none.
    const counts = this.message.topologyCounts[sent.position];
    return attribute === undefined || counts === undefined ? undefined : new Domains(sent, attribute, counts);
  }

  /** The object's JSON, unchanged; undefined if the gateway does not have it. */
  get rawJson(): Uint8Array | undefined {
    this.access.podPart('rawJson');
    return this.message.rawJson.length === 0 ? undefined : this.message.rawJson;
  }

  /**
   * The object that {@link rawJson} describes, parsed with each call. The module `@extender-gateway/policy/kubernetes`
   * has its type. Declared as `rawJson`.
   */
  get raw(): unknown {
    const { rawJson } = this;
    return rawJson === undefined ? undefined : (JSON.parse(Buffer.from(rawJson).toString('utf8')) as unknown);
  }

  private map(map: MapName): MapValues | undefined {
    return map === 'label' ? this.facts.labels : this.facts.annotations;
  }

  private value(map: MapName, key: string, place: number): string | undefined {
    const given = this.map(map);
    if (place === ENTRY) {
      return given?.entries.get(key);
    }
    const value = given?.values[place];
    return value === '' && given?.absent.includes(place) ? undefined : value;
  }
}

/** A map that is not sent because it is empty. */
const NO_ENTRIES: ReadonlyMap<string, string> = new Map();

/** What is wrong with the values of a pod of a request; undefined if there is one for each key. */
export function podMismatch(pod: PodMessage, sent: Sent): string | undefined {
  if (pod.facts === undefined) {
    return undefined;
  }
  return (
    valuesMismatch('label', counted(pod.facts.labels), sent.labels.keys.length) ??
    valuesMismatch('annotation', counted(pod.facts.annotations), sent.annotations.keys.length)
  );
}

function counted(map: MapValues | undefined): Values | undefined {
  return map && { count: map.values.length, absent: map.absent };
}

/** What is wrong with the counts by topology of the pod to be placed; undefined if a domain can be looked up in them. */
export function topologyMismatch(pod: PodMessage, sent: Sent): string | undefined {
  const given = pod.topologyCounts;
  const declared = sent.topologies;
  if (given.length !== declared.length) {
    return ` has ${String(given.length)} entries, and ${String(declared.length)} are declared`;
  }
  for (const [position, { domains }] of given.entries()) {
    const isAscending = domains.every((domain, at) => {
      const before = domains[at - 1];
      return before === undefined || compareBytes(before.value, domain.value) < 0;
    });
    if (!isAscending) {
      return `[${String(position)}].domains is not in ascending order of value, each once`;
    }
    const isValued = (domains.at(-1)?.value ?? '') !== '';
    if (isValued && declared[position]?.label === undefined) {
      return `[${String(position)}].domains has a value, and no topology key is declared for it`;
    }
  }
  return undefined;
}

/**
 * The pods in the cluster that are like the pod to be placed, added up by the value of a label of nodes: one domain for
 * each value. Without a topology key, the cluster is one domain, with an empty value.
 */
export class Domains implements Iterable<[value: string, count: PodCount]> {
  private readonly byValue: ReadonlyMap<string, PodCount>;
  /** The most pods in a domain that is not listed: the gateway leaves out the domains with the fewest pods. */
  private readonly unlisted: number;

  /** @internal */
  constructor(
    private readonly sent: SentTopology,
    private readonly attribute: Attribute,
    counts: TopologyCounts,
  ) {
    this.omittedPods = counts.omittedPods;
    this.byValue = new Map(
      counts.domains.map(({ value, pods, terminating, requested }) => [
        value,
        new PodCount(sent, attribute, { pods, terminating, requested: requested ?? NO_RESOURCES }),
      ]),
    );
    const fewest = (most: number, { pods }: { pods: number }): number => Math.min(most, pods);
    this.unlisted = counts.omittedPods === 0 ? 0 : counts.domains.reduce(fewest, counts.omittedPods);
  }

  /**
   * How many pods are in domains that are left out. The gateway sends at most 4,096 domains, those with the most pods:
   * usually 0.
   */
  readonly omittedPods: number;

  /**
   * The pods in the domain of this node, on all its nodes. Undefined if the node lacks the label, and so is in no
   * domain.
   */
  of(node: Node): PodsLike | undefined {
    const value = this.sent.label === undefined ? '' : node.get(this.sent.label);
    return value === undefined ? undefined : this.at(value);
  }

  /**
   * The domains with at least one such pod, in ascending order of their values, the values of the label. Not those of
   * {@link omittedPods}.
   */
  [Symbol.iterator](): IterableIterator<[value: string, count: PodCount]> {
    return this.byValue[Symbol.iterator]();
  }

  private at(value: string): PodsLike {
    const count = this.byValue.get(value);
    if (count === undefined && this.unlisted > 0) {
      return new PodsLike(undefined, this.unlisted);
    }
    return PodsLike.of(count ?? new PodCount(this.sent, this.attribute));
  }
}

/** The contract writes an unset field as an empty text. */
function given(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}

function bears({ effect, key, operator, value }: Toleration, taint: Taint): boolean {
  const isMeant = (effect === '' || effect === taint.effect) && (key === '' || key === taint.key);
  const isEqual = (operator === '' || operator === 'Equal') && value === taint.value;
  return isMeant && (isEqual || operator === 'Exists');
}
