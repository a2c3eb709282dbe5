/** By what pods are counted, on nodes and in the cluster. */

import { PodCountBy, type PodCountReads } from '../gen/extender/policy/v1beta1/info.js';
import type { Pod } from '../pod.js';
import { compareBytes, quoted } from '../text.js';
import type { NodeKey } from './key.js';

/** What a pod has of an attribute. The namespace is empty unless pods are counted by a label. */
export interface Attribute {
  readonly namespace: string;
  readonly value: string;
}

/** An attribute of pods by which they are counted. Pods without it are not counted. */
export class PodsBy {
  /** The UID of the owner that is the controller, such as a ReplicaSet. */
  static readonly owner = new PodsBy(PodCountBy.OWNER, '');
  /** metadata.namespace. */
  static readonly namespace = new PodsBy(PodCountBy.NAMESPACE, '');
  /** spec.priorityClassName. */
  static readonly priorityClass = new PodsBy(PodCountBy.PRIORITY_CLASS_NAME, '');

  /** The namespace and the value of the label with this key: equal values in two namespaces are counted apart. */
  static label(key: string): PodsBy {
    return new PodsBy(PodCountBy.LABEL, key);
  }

  private constructor(
    /** @internal */
    readonly by: PodCountBy,
    /** The key of the label; empty for other attributes. @internal */
    readonly key: string,
  ) {}

  /** As a policy writes it. */
  toString(): string {
    switch (this.by) {
      case PodCountBy.OWNER:
        return 'PodsBy.owner';
      case PodCountBy.NAMESPACE:
        return 'PodsBy.namespace';
      case PodCountBy.PRIORITY_CLASS_NAME:
        return 'PodsBy.priorityClass';
      default:
        return `PodsBy.label(${quoted(this.key)})`;
    }
  }

  /** What the pod has of it; undefined if it lacks that. @internal */
  of(pod: Pod): Attribute | undefined {
    if (this.by === PodCountBy.LABEL) {
      // The value of a label may be empty.
      const value = pod.label(this.key);
      return value === undefined ? undefined : { namespace: pod.namespace, value };
    }
    const value = this.plain(pod);
    return value === undefined || value === '' ? undefined : { namespace: '', value };
  }

  private plain(pod: Pod): string | undefined {
    switch (this.by) {
      case PodCountBy.OWNER:
        return pod.owner?.uid;
      case PodCountBy.NAMESPACE:
        return pod.namespace;
      default:
        return pod.priorityClass;
    }
  }

  /** @internal */
  get id(): string {
    return `${String(this.by)} ${this.key}`;
  }

  /** @internal */
  compare(other: PodsBy): number {
    return this.by - other.by || compareBytes(this.key, other.key);
  }
}

/**
 * A declared count of the pods on each node, from {@link Reads.podsBy} or {@link Reads.podsAndRequestsBy}: what
 * {@link Node.podsLike} and {@link Node.podCounts} read.
 */
export class PodsKey {
  /** @internal */
  constructor(
    /** @internal */
    readonly by: PodsBy,
  ) {}
}

/**
 * A declared count of the pods in the cluster, from {@link Reads.podsByTopology} or
 * {@link Reads.podsAndRequestsByTopology}: what {@link Pod.podsLike} reads.
 */
export class TopologyKey {
  /** @internal */
  constructor(
    /** @internal */
    readonly by: PodsBy,
    /** The key of a label of nodes; empty for the whole cluster. @internal */
    readonly key: string,
  ) {}

  /** As a policy writes the arguments. */
  toString(): string {
    return `${this.by.toString()}, ${quoted(this.key)}`;
  }

  /** @internal */
  get id(): string {
    return `${String(this.by.by)} ${this.by.key}\0${this.key}`;
  }

  /** @internal */
  compare(other: TopologyKey): number {
    return this.by.compare(other.by) || compareBytes(this.key, other.key);
  }
}

/** One count of pods on nodes, as sent. */
export interface SentCount {
  readonly by: PodsBy;
  readonly requests: boolean;
  /** Among the counts of a row. */
  readonly position: number;
}

/** One list of counts of pods in the cluster, as sent. */
export interface SentTopology {
  readonly topology: TopologyKey;
  readonly requests: boolean;
  /** With which the domain of a node is found; undefined for the whole cluster. */
  readonly label: NodeKey | undefined;
  /** Among the lists of a pod. */
  readonly position: number;
}

/** The contract's message. */
export function podCountReads({ by, requests }: SentCount): PodCountReads {
  return { by: by.by, label: by.key, requests };
}
