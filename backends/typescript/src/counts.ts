/** The counts of pods as a policy sees them, on a node or in a domain of the cluster. */

import { undeclaredRequests } from './reads/access.js';
import { PodCountBy } from './gen/extender/policy/v1beta1/info.js';
import type { Attribute, SentCount, SentTopology } from './reads/pods.js';
import { NO_RESOURCES, type Resources } from './resources.js';

/** The numbers of a count. */
interface Numbers {
  readonly pods: number;
  readonly terminating: number;
  readonly requested: Resources;
}

const NONE: Numbers = { pods: 0, terminating: 0, requested: NO_RESOURCES };

/**
 * Pods on a node, or in a domain of the cluster, with one owner, one namespace, one value of a label, or one priority
 * class.
 */
export class PodCount {
  /** The owner's UID, the namespace, the label's value, or the name of the priority class. */
  readonly value: string;
  /** How many pods, with those that are being deleted. */
  readonly pods: number;
  /**
   * How many of them are being deleted (metadata.deletionTimestamp). kube-scheduler does not count these for topology
   * spread constraints.
   */
  readonly terminating: number;

  /** @internal */
  constructor(
    private readonly counted: SentCount | SentTopology,
    private readonly attribute: Attribute,
    private readonly numbers: Numbers = NONE,
  ) {
    this.value = attribute.value;
    this.pods = numbers.pods;
    this.terminating = numbers.terminating;
  }

  /** The pods' namespace; undefined if they are counted by owner or priority class. */
  get namespace(): string | undefined {
    const { by } = 'topology' in this.counted ? this.counted.topology : this.counted;
    switch (by.by) {
      case PodCountBy.LABEL:
        return this.attribute.namespace;
      case PodCountBy.NAMESPACE:
        return this.attribute.value;
      default:
        return undefined;
    }
  }

  /**
   * The sums of what the pods need, with those that are being deleted. `pods` is 0. Of extended resources, those on a
   * node are the ones that the node reports in its status, and those in a domain the ones that the pod to be placed
   * requests: others are left out.
   *
   * @throws unless the count is declared with {@link Reads.podsAndRequestsBy} or
   * {@link Reads.podsAndRequestsByTopology}.
   */
  get requested(): Resources {
    return this.counted.requests ? this.numbers.requested : undeclaredRequests(this.counted);
  }
}

/**
 * How many pods on a node, or in a domain of the cluster, are like a pod. Of a node with pods of very many owners, or
 * very many values of a label, the gateway leaves out some counts, and so it does of very many domains; the number is
 * then known only within bounds. A limit takes {@link atMost}, a requirement takes {@link atLeast}: neither then takes
 * an unknown number for 0.
 */
export class PodsLike {
  /** The fewest pods that there can be, with those that are being deleted. */
  readonly atLeast: number;
  /** The most pods that there can be, with those that are being deleted. */
  readonly atMost: number;

  /** @internal */
  constructor(
    /** The count; undefined if it is left out. */
    readonly counted: PodCount | undefined,
    atMost: number,
  ) {
    this.atLeast = counted?.pods ?? 0;
    this.atMost = atMost;
  }

  /** A known count. @internal */
  static of(count: PodCount): PodsLike {
    return new PodsLike(count, count.pods);
  }
}
