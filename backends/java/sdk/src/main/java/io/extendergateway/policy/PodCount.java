package io.extendergateway.policy;

import io.extendergateway.policy.Layout.SentCount;
import io.extendergateway.policy.Layout.SentTopology;
import io.extendergateway.policy.v1beta1.DomainCount;
import io.extendergateway.policy.v1beta1.Resources;
import java.util.Optional;

/**
 * Pods on a node, or in a domain of the cluster, with one owner, one namespace, one value of a
 * label, or one priority class.
 */
public final class PodCount {
  /** One of the two is {@code null}. */
  private final SentCount onNode;

  private final SentTopology inDomain;
  private final String namespace;
  private final String value;
  private final long pods;
  private final long terminating;
  private final Resources requested;

  private PodCount(
      SentCount onNode,
      SentTopology inDomain,
      PodsBy.Attribute attribute,
      int pods,
      int terminating,
      Resources requested) {
    this.onNode = onNode;
    this.inDomain = inDomain;
    namespace = attribute.namespace();
    value = attribute.value();
    this.pods = Integer.toUnsignedLong(pods);
    this.terminating = Integer.toUnsignedLong(terminating);
    this.requested = requested;
  }

  static PodCount onNode(SentCount sent, io.extendergateway.policy.v1beta1.PodCount count) {
    PodsBy.Attribute attribute = new PodsBy.Attribute(count.getNamespace(), count.getValue());
    return new PodCount(
        sent, null, attribute, count.getPods(), count.getTerminating(), count.getRequested());
  }

  static PodCount noneOnNode(SentCount sent, PodsBy.Attribute attribute) {
    return new PodCount(sent, null, attribute, 0, 0, Resources.getDefaultInstance());
  }

  static PodCount inDomain(SentTopology sent, PodsBy.Attribute attribute, DomainCount count) {
    return new PodCount(
        null, sent, attribute, count.getPods(), count.getTerminating(), count.getRequested());
  }

  /** The pods' namespace; empty if they are counted by owner or priority class. */
  public Optional<String> namespace() {
    PodsBy by = onNode != null ? onNode.by() : inDomain.topology().by();
    return by.isLabel()
        ? Optional.of(namespace)
        : by.isNamespace() ? Optional.of(value) : Optional.empty();
  }

  /** The owner's UID, the namespace, the label's value, or the name of the priority class. */
  public String value() {
    return value;
  }

  /** How many pods, with those that are being deleted. */
  public long pods() {
    return pods;
  }

  /**
   * How many of them are being deleted (metadata.deletionTimestamp). kube-scheduler does not count
   * these for topology spread constraints.
   */
  public long terminating() {
    return terminating;
  }

  /**
   * The sums of what the pods need, with those that are being deleted, in the units of {@link
   * Pod#requests}. {@code pods} is 0. Of extended resources, those on a node are the ones that the
   * node reports in its status, and those in a domain the ones that the pod to be placed requests:
   * others are left out and read as 0.
   *
   * @throws UndeclaredReadException unless the count is declared with {@link
   *     Reads#podsAndRequestsBy} or {@link Reads#podsAndRequestsByTopology}
   */
  public Resources requested() {
    if (onNode != null && !onNode.requests()) {
      throw Access.undeclaredRequests(onNode.by());
    }
    if (inDomain != null && !inDomain.requests()) {
      throw Access.undeclaredRequests(inDomain.topology());
    }
    return requested;
  }
}
