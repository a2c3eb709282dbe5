/** A node as a policy sees it. */

import { PodCount, PodsLike } from './counts.js';
import type { NodeAddress, NodeImage, SystemInfo } from './gen/extender/policy/v1beta1/node.js';
import type { Pod } from './pod.js';
import type { Access } from './reads/access.js';
import type { MapName, NodeKey, NodePrefix } from './reads/key.js';
import { ENTRY } from './reads/places.js';
import type { PodsKey } from './reads/pods.js';
import type { NodeUsage, Resources, Taint } from './resources.js';
import type { Row } from './row.js';

/**
 * One node. Reading anything else of it than the verb declares with {@link Verb.reads} throws. What is read of a node must
 * not be modified: the next call gets the same objects.
 */
export class Node {
  /** @internal */
  constructor(
    private readonly row: Row,
    private readonly access: Access,
  ) {}

  /** metadata.name. */
  get name(): string {
    this.access.nodePart('name');
    return this.row.name;
  }

  /** The value of a declared label or annotation; undefined when the node does not have it. */
  get(key: NodeKey): string | undefined {
    return this.value(key.map, key.text, this.access.key(key));
  }

  /** The labels or annotations with a declared prefix, by key. */
  *entries(prefix: NodePrefix): IterableIterator<[key: string, value: string]> {
    this.access.entries(prefix.map, prefix.text);
    for (const entry of this.row.map(prefix.map)) {
      if (entry[0].startsWith(prefix.text)) {
        yield entry;
      }
    }
  }

  /** The value of a label; undefined when the node does not have it. */
  label(key: string): string | undefined {
    return this.value('label', key, this.access.text('label', key));
  }

  /** All labels: declared with {@link Reads.everything}, or by the prefix "". */
  get labels(): ReadonlyMap<string, string> {
    this.access.entries('label', '');
    return this.row.map('label');
  }

  /** The value of an annotation; undefined when the node does not have it. */
  annotation(key: string): string | undefined {
    return this.value('annotation', key, this.access.text('annotation', key));
  }

  /** spec.taints, in order. */
  get taints(): readonly Taint[] {
    this.access.nodePart('taints');
    return this.row.taints;
  }

  /** spec.unschedulable: whether the node is cordoned. */
  get unschedulable(): boolean {
    this.access.nodePart('unschedulable');
    return this.row.isUnschedulable;
  }

  /** status.conditions, from type to status: "Ready" to "True", "False" or "Unknown". */
  get conditions(): ReadonlyMap<string, string> {
    this.access.nodePart('conditions');
    return this.row.map('condition');
  }

  /** status.capacity; undefined while it is not reported. */
  get capacity(): Resources | undefined {
    this.access.nodePart('capacity');
    return this.row.capacity;
  }

  /** status.allocatable, the total that pods may request; undefined while it is not reported. */
  get allocatable(): Resources | undefined {
    this.access.nodePart('allocatable');
    return this.row.allocatable;
  }

  /** status.images, in order: their names with tags and digests, and their bytes, 0 if they are not known. */
  get images(): readonly Readonly<NodeImage>[] {
    this.access.nodePart('images');
    return this.row.images;
  }

  /** status.nodeInfo: the versions of the kernel, the kubelet and so on; undefined while it is not reported. */
  get systemInfo(): Readonly<SystemInfo> | undefined {
    this.access.nodePart('systemInfo');
    return this.row.systemInfo;
  }

  /** status.addresses, in order. */
  get addresses(): readonly Readonly<NodeAddress>[] {
    this.access.nodePart('addresses');
    return this.row.addresses;
  }

  /** spec.providerID; undefined if not set. */
  get providerId(): string | undefined {
    this.access.nodePart('providerId');
    return this.row.providerId;
  }

  /**
   * What the pods on the node have requested; undefined when it is not known. A pure verb may read it; the answer for a
   * node is then cached until a pod is added to the node or removed from it. It lags behind what kube-scheduler assumes,
   * usually by some milliseconds: no basis for an exclusive allocation.
   */
  get usage(): NodeUsage | undefined {
    this.access.nodePart('usage');
    return this.row.usage;
  }

  /**
   * What the pods request that are nominated to the node (status.nominatedNodeName) and wait for room there after
   * preemption, neither bound nor ended, the pod of the call among them; undefined when it is not known. {@link usage} has
   * none of it, and it lags behind in the same way.
   */
  get nominated(): NodeUsage | undefined {
    this.access.nodePart('nominated');
    return this.row.nominated;
  }

  /**
   * The pods on the node that are like this one: with the same owner, namespace, value of the label or priority class,
   * as the key declares. Undefined if the pod lacks that: a pod without a controller has no siblings.
   *
   * Pods count from when they are bound until they have ended or are gone, also while they are being deleted; the pod of
   * a call is none of them. The count lags behind what kube-scheduler assumes by the time that a Binding needs, usually
   * some milliseconds: the pod that it placed before may be missing.
   */
  podsLike(key: PodsKey, pod: Pod): PodsLike | undefined {
    const sent = this.access.pods(key.by);
    const attribute = key.by.of(pod);
    if (attribute === undefined) {
      return undefined;
    }
    const list = this.row.podCounts(sent.position);
    const count = list.find(attribute.namespace, attribute.value);
    if (count === undefined && list.omittedPods > 0) {
      return new PodsLike(undefined, list.omittedPods);
    }
    return PodsLike.of(new PodCount(sent, attribute, count));
  }

  /**
   * The pods on the node, counted as the key declares, by namespace and value. Not those of {@link omittedPods}, and not
   * those that lack what is counted by.
   */
  podCounts(key: PodsKey): readonly PodCount[] {
    const sent = this.access.pods(key.by);
    return this.row.podCounts(sent.position).counts.map((count) => new PodCount(sent, count, count));
  }

  /**
   * How many pods {@link podCounts} leaves out. The gateway sends at most 512 counts of a node, those with the most
   * pods, and none whose value is longer than 253 bytes: usually 0.
   */
  omittedPods(key: PodsKey): number {
    return this.row.podCounts(this.access.pods(key.by).position).omittedPods;
  }

  /** The object's JSON, unchanged; undefined if the gateway does not have it. */
  get rawJson(): Uint8Array | undefined {
    this.access.nodePart('rawJson');
    return this.row.rawJson;
  }

  /**
   * The object that {@link rawJson} describes, parsed once for each change of the node. The module
   * `@extender-gateway/policy/kubernetes` has its type. Declared as `rawJson`.
   */
  get raw(): unknown {
    this.access.nodePart('rawJson');
    return this.row.raw;
  }

  private value(map: MapName, key: string, place: number): string | undefined {
    return place === ENTRY ? this.row.map(map).get(key) : this.row.value(map, place);
  }
}
