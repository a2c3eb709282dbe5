package io.extendergateway.policy;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import com.google.protobuf.Message;
import io.extendergateway.policy.Layout.Fields;
import io.extendergateway.policy.Layout.SentCount;
import io.extendergateway.policy.Layout.SentTopology;
import io.extendergateway.policy.PodsBy.Attribute;
import io.extendergateway.policy.Rehearsal.InCluster;
import io.extendergateway.policy.Rehearsal.Running;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.DomainCount;
import io.extendergateway.policy.v1beta1.MapValues;
import io.extendergateway.policy.v1beta1.NodeFacts;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.PodCount;
import io.extendergateway.policy.v1beta1.PodCounts;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.TopologyCounts;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Predicate;

/** What the gateway sends of objects to a verb, for tests of policies. */
final class Sent {
  /** To pods as tests give them, with all labels as entries. */
  private static final Access GIVEN = new Access(new Layout(Reads.everything()).pod, false);

  private Sent() {}

  /**
   * Keeps of facts the declared parts, each of which has the name of its field, and of labels and
   * annotations the values of declared keys, and the entries with declared prefixes. A number or
   * truth value that is declared is there, also if it is 0 or false.
   */
  private static <B extends Message.Builder> B keep(B facts, Fields fields, EnumDescriptor parts) {
    Descriptor type = facts.getDescriptorForType();
    for (EnumValueDescriptor part : parts.getValues()) {
      String name = part.getName().replaceFirst("^[A-Z]+_PART_", "").toLowerCase(Locale.ROOT);
      FieldDescriptor field = type.findFieldByName(name);
      boolean isDeclared = (fields.parts & 1 << part.getNumber()) != 0;
      if (field != null && !isDeclared) {
        facts.clearField(field);
      } else if (field != null && field.hasPresence() && field.getJavaType() != JavaType.MESSAGE) {
        facts.setField(field, facts.getField(field));
      }
    }
    for (Key.Which map : Key.Which.values()) {
      FieldDescriptor field = type.findFieldByName(map.singular + "s");
      MapValues sent = values((MapValues) facts.getField(field), fields.places(map));
      if (sent.equals(MapValues.getDefaultInstance())) {
        facts.clearField(field);
      } else {
        facts.setField(field, sent);
      }
    }
    return facts;
  }

  /** Of all entries, what is sent. */
  private static MapValues values(MapValues all, Keys.Places places) {
    Map<String, String> entries = all.getEntriesMap();
    MapValues.Builder sent = MapValues.newBuilder();
    entries.forEach(
        (key, value) -> {
          if (places.covers(key)) {
            sent.putEntries(key, value);
          }
        });
    for (int position = 0; position < places.keys.length; position++) {
      String key = places.keys[position];
      sent.addValues(entries.getOrDefault(key, ""));
      if (!entries.containsKey(key)) {
        sent.addAbsent(position);
      }
    }
    return sent.build();
  }

  /** The pod, with the declared parts alone, to be placed on one of these nodes. */
  static io.extendergateway.policy.v1beta1.Pod pod(
      Fields fields, io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> cluster) {
    io.extendergateway.policy.v1beta1.Pod.Builder sent = pod.toBuilder().clearTopologyCounts();
    if (!fields.has(PodPart.IDENTITY)) {
      sent.clearIdentity();
    }
    if (!fields.has(PodPart.RAW_JSON)) {
      sent.clearRawJson();
    }
    EnumDescriptor parts = io.extendergateway.policy.v1beta1.PodPart.getDescriptor();
    sent.setFacts(keep(pod.getFacts().toBuilder(), fields, parts));
    for (SentTopology topology : fields.topologies) {
      sent.addTopologyCounts(topology(topology, pod, cluster));
    }
    return sent.build();
  }

  /** The node, as this verb gets it. */
  static NodeRow row(Declaration.Terms terms, InCluster node) {
    Fields fields = terms.reads.node;
    NodeRow.Builder sent = node.row().toBuilder();
    if (!fields.has(NodePart.NAME)) {
      sent.clearName();
    }
    if (!fields.has(NodePart.USAGE)) {
      sent.clearUsage();
    }
    if (!fields.has(NodePart.NOMINATED)) {
      sent.clearNominated();
    }
    if (!fields.has(NodePart.RAW_JSON)) {
      sent.clearRawJson();
    }
    if (terms.rowParts.facts()) {
      EnumDescriptor parts = io.extendergateway.policy.v1beta1.NodePart.getDescriptor();
      sent.setFacts(keep(node.row().getFacts().toBuilder(), fields, parts));
    } else {
      sent.clearFacts();
    }
    for (SentCount count : fields.pods) {
      sent.addPodCounts(counts(count, node));
    }
    return sent.build();
  }

  private static Optional<Attribute> attribute(
      PodsBy by, io.extendergateway.policy.v1beta1.Pod pod) {
    return by.of(new Pod(pod, GIVEN, Call.getDefaultInstance()));
  }

  /** The counts of the pods on a node by one attribute, as the gateway counts them. */
  private static PodCounts counts(SentCount sent, InCluster node) {
    NodeFacts facts = node.row().getFacts();
    Predicate<String> reported =
        name ->
            facts.getAllocatable().containsOthers(name) || facts.getCapacity().containsOthers(name);
    Map<Attribute, PodCount.Builder> counts = new TreeMap<>();
    for (Running equal : node.pods()) {
      Optional<Attribute> attribute = attribute(sent.by(), equal.pod());
      if (equal.pods() <= 0 || attribute.isEmpty()) {
        continue;
      }
      PodCount.Builder count =
          counts.computeIfAbsent(
              attribute.get(),
              added ->
                  PodCount.newBuilder().setNamespace(added.namespace()).setValue(added.value()));
      count.setPods(count.getPods() + equal.pods());
      count.setTerminating(count.getTerminating() + equal.terminating());
      if (sent.requests()) {
        count.setRequested(sum(count.getRequested(), equal, reported));
      }
    }
    return limited(counts.values());
  }

  /** Without long values, and of too many those with the most pods, in the order of before. */
  private static PodCounts limited(Iterable<PodCount.Builder> all) {
    List<PodCount.Builder> fitting = new ArrayList<>();
    int omitted = 0;
    for (PodCount.Builder count : all) {
      if (Utf8.length(count.getValue()) <= Limits.COUNTED_VALUE_BYTES) {
        fitting.add(count);
      } else {
        omitted += count.getPods();
      }
    }
    if (fitting.size() > Limits.NODE_COUNTS) {
      fitting.sort(Comparator.comparingInt(PodCount.Builder::getPods).reversed());
      List<PodCount.Builder> least = fitting.subList(Limits.NODE_COUNTS, fitting.size());
      omitted += least.stream().mapToInt(PodCount.Builder::getPods).sum();
      least.clear();
      fitting.sort(
          Comparator.comparing(PodCount.Builder::getNamespace, Utf8::compare)
              .thenComparing(PodCount.Builder::getValue, Utf8::compare));
    }
    PodCounts.Builder counts = PodCounts.newBuilder().setOmittedPods(omitted);
    fitting.forEach(counts::addCounts);
    return counts.build();
  }

  /** The counts of the pods in the cluster that are like this one, as the gateway counts them. */
  private static TopologyCounts topology(
      SentTopology sent, io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> cluster) {
    PodsBy by = sent.topology().by();
    Optional<Attribute> wanted = attribute(by, pod);
    if (wanted.isEmpty()) {
      return TopologyCounts.getDefaultInstance();
    }
    Predicate<String> requested = pod.getFacts().getRequests().getOthersMap()::containsKey;
    Map<String, DomainCount.Builder> domains = new TreeMap<>(Utf8::compare);
    for (InCluster node : cluster) {
      String key = sent.topology().key();
      MapValues labels = node.row().getFacts().getLabels();
      String value = key.isEmpty() ? "" : labels.getEntriesOrDefault(key, null);
      for (Running equal : value == null ? List.<Running>of() : node.pods()) {
        if (equal.pods() > 0 && attribute(by, equal.pod()).equals(wanted)) {
          DomainCount.Builder count =
              domains.computeIfAbsent(value, added -> DomainCount.newBuilder().setValue(added));
          count.setPods(count.getPods() + equal.pods());
          count.setTerminating(count.getTerminating() + equal.terminating());
          if (sent.requests()) {
            count.setRequested(sum(count.getRequested(), equal, requested));
          }
        }
      }
    }
    return limited(new LinkedHashMap<>(domains));
  }

  private static TopologyCounts limited(Map<String, DomainCount.Builder> domains) {
    List<DomainCount.Builder> most = new ArrayList<>(domains.values());
    int omitted = 0;
    if (most.size() > Limits.DOMAINS) {
      most.sort(Comparator.comparingInt(DomainCount.Builder::getPods).reversed());
      for (DomainCount.Builder least : most.subList(Limits.DOMAINS, most.size())) {
        omitted += least.getPods();
        domains.remove(least.getValue());
      }
    }
    TopologyCounts.Builder counts = TopologyCounts.newBuilder().setOmittedPods(omitted);
    domains.values().forEach(counts::addDomains);
    return counts.build();
  }

  /** Adds the pods' requests, of extended resources those with these names. */
  private static Resources sum(Resources sum, Running equal, Predicate<String> extended) {
    Resources requests = equal.pod().getFacts().getRequests();
    Resources.Builder added =
        sum.toBuilder()
            .setMilliCpu(plus(sum.getMilliCpu(), requests.getMilliCpu(), equal.pods()))
            .setMemory(plus(sum.getMemory(), requests.getMemory(), equal.pods()))
            .setEphemeralStorage(
                plus(sum.getEphemeralStorage(), requests.getEphemeralStorage(), equal.pods()));
    requests
        .getOthersMap()
        .forEach(
            (name, amount) -> {
              if (extended.test(name)) {
                added.putOthers(name, plus(sum.getOthersOrDefault(name, 0), amount, equal.pods()));
              }
            });
    return added.build();
  }

  /** Amounts beyond the type's range are its largest value. */
  private static long plus(long sum, long amount, int pods) {
    java.math.BigInteger exact =
        java.math.BigInteger.valueOf(amount)
            .multiply(java.math.BigInteger.valueOf(pods))
            .add(java.math.BigInteger.valueOf(sum));
    return exact.bitLength() < 64
        ? exact.longValue()
        : exact.signum() < 0 ? Long.MIN_VALUE : Long.MAX_VALUE;
  }
}
