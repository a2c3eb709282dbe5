package io.extendergateway.policy;

import io.extendergateway.policy.Layout.SentTopology;
import io.extendergateway.policy.v1beta1.DomainCount;
import io.extendergateway.policy.v1beta1.TopologyCounts;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * The pods in the cluster that are like the pod to be placed, added up by the value of a label of
 * nodes: one domain for each value. Without a topology key, the cluster is one domain, with an
 * empty value.
 */
public final class Domains {
  private final SentTopology sent;
  private final PodsBy.Attribute attribute;
  private final TopologyCounts counts;

  Domains(SentTopology sent, PodsBy.Attribute attribute, TopologyCounts counts) {
    this.sent = sent;
    this.attribute = attribute;
    this.counts = counts;
  }

  /**
   * The pods in the domain of this node, on all its nodes; empty if the node lacks the label, and
   * so is in no domain.
   */
  public Optional<PodsLike> of(Node node) {
    return sent.label() == null ? Optional.of(at("")) : node.get(sent.label()).map(this::at);
  }

  /**
   * The domains with at least one such pod, by the value of the label, in ascending order. Not
   * those of {@link #omittedPods}.
   */
  public Map<String, PodCount> all() {
    Map<String, PodCount> all = new LinkedHashMap<>();
    for (DomainCount domain : counts.getDomainsList()) {
      all.put(domain.getValue(), PodCount.inDomain(sent, attribute, domain));
    }
    return all;
  }

  /**
   * How many pods are in domains that are left out. The gateway sends at most 4,096 domains, those
   * with the most pods: usually 0.
   */
  public long omittedPods() {
    return Integer.toUnsignedLong(counts.getOmittedPods());
  }

  private PodsLike at(String value) {
    DomainCount found =
        Row.find(counts.getDomainsList(), domain -> Utf8.compare(domain.getValue(), value));
    if (found != null) {
      return PodsLike.counted(PodCount.inDomain(sent, attribute, found));
    }
    if (omittedPods() == 0) {
      DomainCount none = DomainCount.getDefaultInstance();
      return PodsLike.counted(PodCount.inDomain(sent, attribute, none));
    }
    return PodsLike.upTo(unlisted());
  }

  /** The gateway leaves out the domains with the fewest pods. */
  private long unlisted() {
    long least = omittedPods();
    for (DomainCount domain : counts.getDomainsList()) {
      least = Math.min(least, Integer.toUnsignedLong(domain.getPods()));
    }
    return least;
  }
}
