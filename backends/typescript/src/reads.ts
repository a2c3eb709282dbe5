/** What a verb reads of pods and nodes, declared once. */

import { PodCountBy } from './gen/extender/policy/v1beta1/info.js';
import { READ_KEYS } from './limits.js';
import { NodeKey, NodePrefix, PodKey, PodPrefix } from './reads/key.js';
import { type Declared, Layout, Sent } from './reads/layout.js';
import { INCLUDED_PARTS, NODE_PARTS, POD_PARTS, type NodePart, type PodPart } from './reads/parts.js';
import { DeclaredKeys } from './reads/places.js';
import type { PodsBy } from './reads/pods.js';
import { PodsKey, TopologyKey } from './reads/pods.js';

function nothing(): Declared {
  return {
    isEverything: false,
    parts: new Set(),
    label: new DeclaredKeys(),
    annotation: new DeclaredKeys(),
  };
}

/** The same with all that everything includes. */
function completed(declared: Declared, included: ReadonlySet<number>): Declared {
  const { parts, label, annotation } = copyOf(declared);
  label.prefix('');
  return { isEverything: true, parts: new Set([...parts, ...included]), label, annotation };
}

function copyOf({ isEverything, parts, label, annotation }: Declared): Declared {
  return { isEverything, parts: new Set(parts), label: label.copy(), annotation: annotation.copy() };
}

/**
 * What a verb reads of pods and nodes. The gateway sends this and nothing else, so the less a verb reads, the more calls
 * a cached answer serves and the fewer rows of the node table change. A verb that reads no more of nodes than their names
 * is also asked about nodes that the gateway does not know.
 *
 * ```ts
 * class Racks extends Policy {
 *   readonly #reads = new Reads();
 *   readonly #rack = this.#reads.nodeLabel('topology.acme.io/rack');
 *
 *   override info(): Info {
 *     return new Info('racks', '1.0.0').filters(Verb.perNode().pure().reads(this.#reads));
 *   }
 *
 *   override filter(_pod: Pod, node: Node): Verdict {
 *     return node.get(this.#rack) === undefined
 *       ? Verdict.reject('node is in no rack').unresolvable()
 *       : Verdict.accept;
 *   }
 * }
 * ```
 *
 * A declared key can be read with what its declaration returned, which is fastest, or as a text: `node.get(rack)` and
 * `node.label('topology.acme.io/rack')` give the same value. Reading anything else throws, and the error names it: a
 * test with the module `testing` fails with that text, and so does a call (INTERNAL).
 */
export class Reads {
  /** The most keys and prefixes of one declaration, those of pods and nodes together. */
  static readonly maxKeys = READ_KEYS;

  /**
   * All facts of pods and nodes and all their labels, also what later versions of the gateway add. Usage, nominated pods,
   * images, JSON, the identity of the pod, annotations and counts of pods are declared besides. What is included already may be
   * declared, too: a label's key is then read by what its declaration returns, and is not sent twice. For
   * {@link Info.binds} and {@link Info.beforeFilter}, which have no nodes, it is everything of the pod.
   */
  static everything(): Reads {
    return new Reads().completed();
  }

  private podReads = nothing();
  private nodeReads = nothing();
  /** Whether the requests are read, too. */
  private counts = new Map<string, { by: PodsBy; requests: boolean }>();
  private topologies = new Map<
    string,
    { topology: TopologyKey; requests: boolean; label: NodeKey | undefined }
  >();

  /** A label of nodes. Declared twice, it is the same key. */
  nodeLabel(key: string): NodeKey {
    return new NodeKey('label', key, this.nodeReads.label.key(key));
  }

  /** The labels of nodes whose key begins with this; "" is all of them. */
  nodeLabels(prefix: string): NodePrefix {
    this.nodeReads.label.prefix(prefix);
    return new NodePrefix('label', prefix);
  }

  /** An annotation of nodes. */
  nodeAnnotation(key: string): NodeKey {
    return new NodeKey('annotation', key, this.nodeReads.annotation.key(key));
  }

  /** The annotations of nodes whose key begins with this; "" is all of them. */
  nodeAnnotations(prefix: string): NodePrefix {
    this.nodeReads.annotation.prefix(prefix);
    return new NodePrefix('annotation', prefix);
  }

  /** Parts of nodes. */
  node(...parts: readonly NodePart[]): this {
    parts.forEach((part) => this.nodeReads.parts.add(NODE_PARTS[part]));
    return this;
  }

  /** A label of the pod, and of victims. */
  podLabel(key: string): PodKey {
    return new PodKey('label', key, this.podReads.label.key(key));
  }

  /** The labels of the pod, and of victims, whose key begins with this; "" is all of them. */
  podLabels(prefix: string): PodPrefix {
    this.podReads.label.prefix(prefix);
    return new PodPrefix('label', prefix);
  }

  /**
   * An annotation of the pod, and of victims. In a pure verb, one that the pods of a template share: otherwise no cached
   * answer serves a second pod.
   */
  podAnnotation(key: string): PodKey {
    return new PodKey('annotation', key, this.podReads.annotation.key(key));
  }

  /** The annotations of the pod, and of victims, whose key begins with this; "" is all of them. */
  podAnnotations(prefix: string): PodPrefix {
    this.podReads.annotation.prefix(prefix);
    return new PodPrefix('annotation', prefix);
  }

  /** Parts of the pod, and of victims. */
  pod(...parts: readonly PodPart[]): this {
    parts.forEach((part) => this.podReads.parts.add(POD_PARTS[part]));
    return this;
  }

  /**
   * The pods on each node, counted by this. Declares the attribute of the pod, too, with which {@link Node.podsLike}
   * finds the pods that are like it. At most 8 different attributes. The gateway must watch pods. The verb may be pure: the
   * answer for a node is then cached until a pod is added to the node or removed from it. The counts lag behind what
   * kube-scheduler assumes by the time that a Binding needs, usually some milliseconds: two pods in a row can both see room
   * for one. A gateway that binds asks again before each Binding.
   */
  podsBy(by: PodsBy): PodsKey {
    return this.counted(by, false);
  }

  /**
   * The same with the sums of the pods' requests, for {@link PodCount.requested}. The requests of the pod to be placed
   * are the part `requests`, to be declared besides.
   */
  podsAndRequestsBy(by: PodsBy): PodsKey {
    return this.counted(by, true);
  }

  /**
   * The pods in the cluster that are like the pod, added up by the value of a label of nodes, such as
   * `topology.kubernetes.io/zone`; with an empty topology key, the pods on all nodes of the cluster. Declares the
   * attribute of the pod and the label of nodes, too. At most 8 different pairs. For filter and score only, not for
   * hooks; the gateway must watch pods, and know the nodes from more than the calls.
   *
   * The counts come with the pod, so the verb is per node, and may be pure; but each change of a count begins a new
   * class of pods, for which nothing is cached yet.
   */
  podsByTopology(by: PodsBy, topologyKey: string): TopologyKey {
    return this.addedUp(new TopologyKey(by, topologyKey), false);
  }

  /** The same with the sums of the pods' requests, for {@link PodCount.requested}. */
  podsAndRequestsByTopology(by: PodsBy, topologyKey: string): TopologyKey {
    return this.addedUp(new TopologyKey(by, topologyKey), true);
  }

  private counted(by: PodsBy, requests: boolean): PodsKey {
    this.attribute(by);
    const declared = this.counts.get(by.id);
    this.counts.set(by.id, { by, requests: requests || declared?.requests === true });
    return new PodsKey(by);
  }

  private addedUp(topology: TopologyKey, requests: boolean): TopologyKey {
    this.attribute(topology.by);
    const label = topology.key === '' ? undefined : this.nodeLabel(topology.key);
    const declared = this.topologies.get(topology.id);
    this.topologies.set(topology.id, { topology, requests: requests || declared?.requests === true, label });
    return topology;
  }

  /** What pods are counted by, of the pod to be placed. */
  private attribute(by: PodsBy): void {
    switch (by.by) {
      case PodCountBy.OWNER:
        this.pod('owner');
        break;
      case PodCountBy.NAMESPACE:
        this.pod('namespace');
        break;
      case PodCountBy.PRIORITY_CLASS_NAME:
        this.pod('priorityClass');
        break;
      default:
        this.pod('namespace');
        this.podLabel(by.key);
    }
  }

  /** The declaration as it is now: later declarations do not change it. @internal */
  copy(): Reads {
    const copy = new Reads();
    copy.podReads = copyOf(this.podReads);
    copy.nodeReads = copyOf(this.nodeReads);
    copy.counts = new Map(this.counts);
    copy.topologies = new Map(this.topologies);
    return copy;
  }

  private completed(): Reads {
    const all = this.copy();
    all.podReads = completed(all.podReads, INCLUDED_PARTS.pod);
    all.nodeReads = completed(all.nodeReads, INCLUDED_PARTS.node);
    return all;
  }

  /** Everything that a verb can declare but other counts of pods. @internal */
  withAll(isPure: boolean): Reads {
    const all = this.completed().node('usage', 'nominated', 'images');
    all.nodeAnnotations('');
    all.podAnnotations('');
    return isPure ? all : all.node('rawJson').pod('identity', 'rawJson');
  }

  /**
   * The same for a verb without nodes, where everything is that of the pod. What a declaration without everything has of
   * nodes stays, for the gateway to reject. @internal
   */
  withoutNodes(): Reads {
    const reads = this.copy();
    if (reads.nodeReads.isEverything) {
      reads.nodeReads = nothing();
      reads.counts = new Map();
    }
    return reads;
  }

  /** @internal */
  layout(): Layout {
    const counts = [...this.counts.values()].toSorted((a, b) => a.by.compare(b.by));
    const topologies = [...this.topologies.values()].toSorted((a, b) => a.topology.compare(b.topology));
    const pod = new Sent(
      'pod',
      this.podReads,
      [],
      topologies.map((topology, position) => ({ ...topology, position })),
    );
    const node = new Sent(
      'node',
      this.nodeReads,
      counts.map((count, position) => ({ ...count, position })),
      [],
    );
    return new Layout(pod, node);
  }
}
