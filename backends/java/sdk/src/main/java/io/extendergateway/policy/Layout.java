package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.TopologyKey.Topology;
import io.extendergateway.policy.v1beta1.MapReads;
import io.extendergateway.policy.v1beta1.NodeReads;
import io.extendergateway.policy.v1beta1.PodReads;
import io.extendergateway.policy.v1beta1.TopologyCountReads;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A declaration as both sides of a call use it: the contract's message, and where each value is.
 */
final class Layout {
  final Fields pod;
  final Fields node;

  /** As in the handshake. */
  final io.extendergateway.policy.v1beta1.Reads message;

  /**
   * {@code Call.reads}: the digest of the message, by which a call says that it was sent for it.
   */
  final ByteString sha256;

  /** As tables of nodes declare it. */
  final NodeReads rows;

  /** One list of counts of a row as sent. */
  record SentCount(PodsBy by, boolean requests, int position) {}

  /** One list of counts of a pod as sent; the label is {@code null} for the whole cluster. */
  record SentTopology(Topology topology, boolean requests, NodeKey label, int position) {}

  /** What is sent of one kind of object. */
  static final class Fields {
    /** "pod" or "node". */
    final String object;

    final int parts;

    /** Everything is read: all labels, and parts that the message does not name. */
    final boolean isEverything;

    private final int unnamedParts;
    final Keys.Places labels;
    final Keys.Places annotations;

    /** Of nodes alone. Ascending. */
    final List<SentCount> pods = new ArrayList<>();

    /** Of the pod to be placed alone. Ascending. */
    final List<SentTopology> topologies = new ArrayList<>();

    /** These parts are included if everything is read. */
    private Fields(String object, Reads.Declared declared, int included) {
      this.object = object;
      isEverything = declared.isEverything;
      unnamedParts = isEverything ? included : 0;
      parts = declared.parts | unnamedParts;
      labels = isEverything ? declared.labels.placesInAll() : declared.labels.places();
      annotations = declared.annotations.places();
      for (Map.Entry<PodsBy, Boolean> count : declared.pods.entrySet()) {
        pods.add(new SentCount(count.getKey(), count.getValue(), pods.size()));
      }
      for (Map.Entry<Topology, Reads.Added> added : declared.topologies.entrySet()) {
        Reads.Added how = added.getValue();
        topologies.add(
            new SentTopology(added.getKey(), how.requests(), how.label(), topologies.size()));
      }
    }

    boolean has(Part part) {
      return (parts & Part.bit(part)) != 0;
    }

    private List<Integer> namedParts() {
      return Part.numbers(parts & ~unnamedParts);
    }

    private Optional<MapReads> namedLabels() {
      return isEverything ? Optional.empty() : labels.message();
    }

    Keys.Places places(Key.Which map) {
      return map == Key.Which.LABELS ? labels : annotations;
    }

    Counts counts() {
      return new Counts(labels.keys.length, annotations.keys.length, pods.size());
    }
  }

  /** The number of values of an object, and of the lists of counts of the pods on it. */
  record Counts(int labels, int annotations, int pods) {
    /** Those of a table's rows. */
    static Counts of(NodeReads reads) {
      return new Counts(
          reads.getLabels().getKeysCount(),
          reads.getAnnotations().getKeysCount(),
          reads.getPodCountsCount());
    }
  }

  Layout(Reads reads) {
    pod = new Fields("pod", reads.pod, PodPart.FACTS);
    node = new Fields("node", reads.node, NodePart.FACTS_AND_NAME);
    rows = nodeReads();
    io.extendergateway.policy.v1beta1.Reads.Builder all =
        io.extendergateway.policy.v1beta1.Reads.newBuilder();
    PodReads pods = podReads();
    if (!pods.equals(PodReads.getDefaultInstance())) {
      all.setPod(pods);
    }
    if (!rows.equals(NodeReads.getDefaultInstance())) {
      all.setNode(rows);
    }
    message = all.build();
    sha256 = Sha256.of(message.toByteString());
  }

  private PodReads podReads() {
    PodReads.Builder message =
        PodReads.newBuilder().addAllPartsValue(pod.namedParts()).setEverything(pod.isEverything);
    pod.namedLabels().ifPresent(message::setLabels);
    pod.annotations.message().ifPresent(message::setAnnotations);
    for (SentTopology sent : pod.topologies) {
      var by = sent.topology.by().message(sent.requests);
      message.addTopologyCounts(
          TopologyCountReads.newBuilder()
              .setBy(by.getBy())
              .setLabel(by.getLabel())
              .setTopologyKey(sent.topology.key())
              .setRequests(sent.requests));
    }
    return message.build();
  }

  private NodeReads nodeReads() {
    NodeReads.Builder message =
        NodeReads.newBuilder().addAllPartsValue(node.namedParts()).setEverything(node.isEverything);
    node.namedLabels().ifPresent(message::setLabels);
    node.annotations.message().ifPresent(message::setAnnotations);
    for (SentCount sent : node.pods) {
      message.addPodCounts(sent.by.message(sent.requests));
    }
    return message.build();
  }
}
