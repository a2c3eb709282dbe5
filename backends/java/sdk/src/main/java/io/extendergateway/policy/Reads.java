package io.extendergateway.policy;

import io.extendergateway.policy.TopologyKey.Topology;
import java.util.List;
import java.util.Objects;
import java.util.TreeMap;

/**
 * What a verb reads of pods and nodes. The gateway sends this and nothing else, so the less a verb
 * reads, the more calls a cached answer serves and the fewer rows of the node table change.
 *
 * <pre>{@code
 * final class Racks implements Policy {
 *   private final Reads reads = new Reads().node(NodePart.TAINTS);
 *   private final NodeKey rack = reads.nodeLabel("topology.acme.io/rack");
 *
 *   public Info info() {
 *     return Info.of("racks", "1.0.0").filters(Verb.perNode().pure().reads(reads));
 *   }
 *
 *   public Verdict filter(Pod pod, Node node) {
 *     return node.get(rack).isEmpty() && node.taints().isEmpty()
 *         ? Verdict.reject("node is in no rack").unresolvable()
 *         : Verdict.accept();
 *   }
 * }
 * }</pre>
 *
 * <p>A declared key can be read with what its declaration returned, which is fastest, or as a text:
 * {@link Node#get} and {@link Node#label} give the same value.
 *
 * <p>Reading anything else throws {@link UndeclaredReadException}, which names it: there is no
 * value that could be mistaken for that of a node without the label. A test with {@link
 * io.extendergateway.policy.testing.Testing} fails with that text, and so does a call (INTERNAL).
 */
public final class Reads {
  /**
   * The most keys and prefixes of one declaration, those of pods and nodes together. A prefix takes
   * the place of all keys that begin with it.
   */
  public static final int MAX_KEYS = Limits.READ_KEYS;

  final Declared pod = new Declared();
  final Declared node = new Declared();

  /** Nothing yet: with this a verb knows how many nodes there are, and nothing else. */
  public Reads() {}

  /**
   * All facts and labels of the pod and of nodes, with the names of nodes, and with the facts that
   * later versions of the gateway know. Not included, and to be declared besides: {@link
   * PodPart#IDENTITY}, {@link NodePart#USAGE}, {@link NodePart#NOMINATED}, {@link NodePart#IMAGES},
   * annotations, JSON, and counts of pods. What is included may be declared, too, to read with its
   * key. Where there are no nodes, as in {@link Info#binds(Reads)} and {@link Info#beforeFilter},
   * it is all of the pod.
   *
   * <p>For a policy that cannot know what it reads, such as one with rules of its operator: a
   * cached answer serves fewer pods, and more rows of the node table change.
   */
  public static Reads everything() {
    Reads all = new Reads();
    all.pod.isEverything = true;
    all.node.isEverything = true;
    return all;
  }

  /** What is read of one kind of object. */
  static final class Declared {
    /** All facts and labels: what is declared of these besides is not sent apart. */
    boolean isEverything;

    int parts;
    Keys labels = new Keys();
    Keys annotations = new Keys();

    /**
     * Of nodes alone: how the pods on them are counted, and whether with the sums of their
     * requests.
     */
    final TreeMap<PodsBy, Boolean> pods = new TreeMap<>();

    /** Of the pod to be placed alone: how the pods in the cluster that are like it are counted. */
    final TreeMap<Topology, Added> topologies = new TreeMap<>();

    private void set(Declared other) {
      isEverything = other.isEverything;
      parts = other.parts;
      labels = other.labels.copy();
      annotations = other.annotations.copy();
      pods.putAll(other.pods);
      topologies.putAll(other.topologies);
    }
  }

  /**
   * A count by topology: whether with sums, and the label of nodes; {@code null} for the whole
   * cluster.
   */
  record Added(boolean requests, NodeKey label) {}

  Reads copy() {
    Reads copy = new Reads();
    copy.pod.set(pod);
    copy.node.set(node);
    return copy;
  }

  /** A label of nodes. Declared twice, it is the same key. */
  public NodeKey nodeLabel(String key) {
    return new NodeKey(node.labels.key(Key.Which.LABELS, key));
  }

  /** The labels of nodes whose key begins with this; "" is all of them. */
  public NodePrefix nodeLabels(String prefix) {
    node.labels.prefix(prefix);
    return new NodePrefix(Key.Which.LABELS, prefix);
  }

  /** An annotation of nodes. */
  public NodeKey nodeAnnotation(String key) {
    return new NodeKey(node.annotations.key(Key.Which.ANNOTATIONS, key));
  }

  /** The annotations of nodes whose key begins with this; "" is all of them. */
  public NodePrefix nodeAnnotations(String prefix) {
    node.annotations.prefix(prefix);
    return new NodePrefix(Key.Which.ANNOTATIONS, prefix);
  }

  /** Parts of nodes. */
  public Reads node(NodePart... parts) {
    node.parts |= Part.all(parts);
    return this;
  }

  /** A label of the pod, and of victims. */
  public PodKey podLabel(String key) {
    return new PodKey(pod.labels.key(Key.Which.LABELS, key));
  }

  /** The labels of the pod, and of victims, whose key begins with this; "" is all of them. */
  public PodPrefix podLabels(String prefix) {
    pod.labels.prefix(prefix);
    return new PodPrefix(Key.Which.LABELS, prefix);
  }

  /**
   * An annotation of the pod, and of victims. In a {@linkplain Verb#pure pure} verb, one that the
   * pods of a template share: otherwise no cached answer serves a second pod.
   */
  public PodKey podAnnotation(String key) {
    return new PodKey(pod.annotations.key(Key.Which.ANNOTATIONS, key));
  }

  /** The annotations of the pod, and of victims, whose key begins with this; "" is all of them. */
  public PodPrefix podAnnotations(String prefix) {
    pod.annotations.prefix(prefix);
    return new PodPrefix(Key.Which.ANNOTATIONS, prefix);
  }

  /** Parts of the pod, and of victims. */
  public Reads pod(PodPart... parts) {
    pod.parts |= Part.all(parts);
    return this;
  }

  /**
   * The pods on each node, counted by this. Declares the attribute of the pod, too, with which
   * {@link Node#podsLike} finds the pods that are like it. At most 8 different attributes. The verb
   * needs a gateway that watches pods. It may be {@linkplain Verb#pure pure}: the answer for a node
   * is then cached until a pod is added to the node or removed from it. The counts lag behind what
   * kube-scheduler assumes by the time that a Binding needs, usually some milliseconds: two pods in
   * a row can both see room for one. A gateway that binds asks again before each Binding.
   */
  public PodsKey podsBy(PodsBy by) {
    return counted(by, false);
  }

  /**
   * The same with the sums of the pods' requests, for {@link PodCount#requested}. The requests of
   * the pod to be placed are {@link PodPart#REQUESTS}, to be declared besides.
   */
  public PodsKey podsAndRequestsBy(PodsBy by) {
    return counted(by, true);
  }

  /**
   * The pods in the cluster that are like the pod, added up by the value of a label of nodes, such
   * as {@code topology.kubernetes.io/zone}; with an empty topology key, the pods on all nodes of
   * the cluster. Declares the attribute of the pod and the label of nodes, too. At most 8 different
   * pairs. For filter and score only; the gateway must watch pods, and know the nodes from more
   * than the calls.
   *
   * <p>The counts are those of the whole cluster, also of nodes that are not part of the call, at
   * the moment of the call. So the verb is {@linkplain Verb#perNode per node}, and may be
   * {@linkplain Verb#pure pure}.
   */
  public TopologyKey podsByTopology(PodsBy by, String topologyKey) {
    return addedUp(new Topology(by, Objects.requireNonNull(topologyKey, "topologyKey")), false);
  }

  /** The same with the sums of the pods' requests, for {@link PodCount#requested}. */
  public TopologyKey podsAndRequestsByTopology(PodsBy by, String topologyKey) {
    return addedUp(new Topology(by, Objects.requireNonNull(topologyKey, "topologyKey")), true);
  }

  private PodsKey counted(PodsBy by, boolean requests) {
    attribute(by);
    node.pods.merge(by, requests, Boolean::logicalOr);
    return new PodsKey(by);
  }

  private TopologyKey addedUp(Topology topology, boolean requests) {
    attribute(topology.by());
    NodeKey label = topology.key().isEmpty() ? null : nodeLabel(topology.key());
    pod.topologies.merge(
        topology,
        new Added(requests, label),
        (old, added) -> new Added(old.requests || added.requests, label));
    return new TopologyKey(topology);
  }

  /** What pods are counted by, of the pod to be placed. */
  private void attribute(PodsBy by) {
    pod(by.part());
    if (by.isLabel()) {
      podLabel(by.key());
    }
  }

  /**
   * All that can be declared, with the same counts of pods. Neither JSON nor the identity of the
   * pod is for pure verbs.
   */
  Reads extended(boolean isPure) {
    Reads all = copy().node(NodePart.USAGE, NodePart.NOMINATED, NodePart.IMAGES);
    if (!isPure) {
      all.node(NodePart.RAW_JSON).pod(PodPart.IDENTITY, PodPart.RAW_JSON);
    }
    for (Declared declared : List.of(all.pod, all.node)) {
      declared.isEverything = true;
      declared.annotations.prefix("");
    }
    return all;
  }

  /**
   * The same for a verb that has no nodes, where everything is all of the pod. Any other
   * declaration about nodes stays, for the gateway to reject.
   */
  Reads withoutNodes() {
    if (!node.isEverything) {
      return this;
    }
    Reads ofPod = new Reads();
    ofPod.pod.set(pod);
    return ofPod;
  }
}
