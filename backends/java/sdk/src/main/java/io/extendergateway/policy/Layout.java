package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.TopologyKey.Topology;
import io.extendergateway.policy.v1beta1.NodeReads;
import io.extendergateway.policy.v1beta1.PodReads;
import io.extendergateway.policy.v1beta1.TopologyCountReads;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

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

  /** As in the view of a table of nodes, where nothing is not the same as no declaration. */
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
    final Keys.Places labels;
    final Keys.Places annotations;

    /** Of nodes alone. Ascending. */
    final List<SentCount> pods = new ArrayList<>();

    /** Of the pod to be placed alone. Ascending. */
    final List<SentTopology> topologies = new ArrayList<>();

    private Fields(String object, Reads.Declared declared) {
      this.object = object;
      parts = declared.parts;
      labels = declared.labels.places();
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

  /** For a verb with this view of nodes. */
  Layout(Reads reads, View view) {
    pod = new Fields("pod", reads.pod);
    node = new Fields("node", reads.node);
    rows = nodeReads();
    io.extendergateway.policy.v1beta1.Reads.Builder all =
        io.extendergateway.policy.v1beta1.Reads.newBuilder();
    PodReads pods = podReads();
    if (!pods.equals(PodReads.getDefaultInstance())) {
      all.setPod(pods);
    }
    // A view of names has them; what else is read with it is sent, for the gateway to reject.
    boolean hasNodes = view != View.NAME || reads.readsNodes();
    if (hasNodes && !rows.equals(NodeReads.getDefaultInstance())) {
      all.setNode(rows);
    }
    message = all.build();
    sha256 = Sha256.of(message.toByteString());
  }

  private PodReads podReads() {
    PodReads.Builder message = PodReads.newBuilder().addAllPartsValue(Part.numbers(pod.parts));
    pod.labels.message().ifPresent(message::setLabels);
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
    NodeReads.Builder message = NodeReads.newBuilder().addAllPartsValue(Part.numbers(node.parts));
    node.labels.message().ifPresent(message::setLabels);
    node.annotations.message().ifPresent(message::setAnnotations);
    for (SentCount sent : node.pods) {
      message.addPodCounts(sent.by.message(sent.requests));
    }
    return message.build();
  }
}
