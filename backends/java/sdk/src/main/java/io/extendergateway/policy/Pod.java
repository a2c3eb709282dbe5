package io.extendergateway.policy;

import io.extendergateway.policy.Layout.SentTopology;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.NodeAffinity;
import io.extendergateway.policy.v1beta1.NonZero;
import io.extendergateway.policy.v1beta1.OwnerReference;
import io.extendergateway.policy.v1beta1.PodFacts;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Taint;
import io.extendergateway.policy.v1beta1.Toleration;
import io.extendergateway.policy.v1beta1.Volume;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The pod to be placed, or one that would be evicted. Valid for the duration of the call.
 *
 * <p>In a verb with {@link Verb#reads}, all methods that read something else than what is declared
 * throw {@link UndeclaredReadException}.
 */
public final class Pod {
  private final io.extendergateway.policy.v1beta1.Pod message;
  private final PodFacts facts;
  private final Access access;
  private final Call call;

  Pod(io.extendergateway.policy.v1beta1.Pod message, Access access, Call call) {
    this.message = message;
    this.facts = message.getFacts();
    this.access = access;
    this.call = call;
  }

  /**
   * The value of a declared label or annotation.
   *
   * @param key what {@link Reads#podLabel} or {@link Reads#podAnnotation} returned
   */
  public Optional<String> get(PodKey key) {
    return value(key.key.map(), key.key.text(), access.key(key.key));
  }

  /**
   * The labels or annotations with a declared prefix.
   *
   * @param prefix what {@link Reads#podLabels} or {@link Reads#podAnnotations} returned
   */
  public Map<String, String> entries(PodPrefix prefix) {
    access.entries(prefix.map, prefix.text);
    return Values.entries(map(prefix.map), prefix.text);
  }

  /** metadata.name; empty if the pod has none yet, and for pure verbs, which do not receive it. */
  public Optional<String> name() {
    access.part(PodPart.IDENTITY);
    return Values.given(message.getIdentity().getName());
  }

  /** metadata.uid; empty under the same conditions as {@link #name}. */
  public Optional<String> uid() {
    access.part(PodPart.IDENTITY);
    return Values.given(message.getIdentity().getUid());
  }

  /** metadata.namespace. */
  public String namespace() {
    access.part(PodPart.NAMESPACE);
    return facts.getNamespace();
  }

  /** The value of a label. */
  public Optional<String> label(String key) {
    return value(Key.Which.LABELS, key, access.text(Key.Which.LABELS, key));
  }

  /** All labels. A declaration has the prefix "" for them. */
  public Map<String, String> labels() {
    access.entries(Key.Which.LABELS, "");
    return facts.getLabelsMap();
  }

  /**
   * The value of an annotation. Without {@link Verb#reads}, only if {@link Info#annotations} asks
   * for its prefix.
   */
  public Optional<String> annotation(String key) {
    return value(Key.Which.ANNOTATIONS, key, access.text(Key.Which.ANNOTATIONS, key));
  }

  /** All annotations that are sent. A declaration has the prefix "" for them. */
  public Map<String, String> annotations() {
    access.entries(Key.Which.ANNOTATIONS, "");
    return facts.getAnnotationsMap();
  }

  /** The owner that is the controller; empty if the pod has none. */
  public Optional<OwnerReference> owner() {
    access.part(PodPart.OWNER);
    return facts.hasOwner() ? Optional.of(facts.getOwner()) : Optional.empty();
  }

  /** spec.priority; 0 if the pod has none, as in kube-scheduler. */
  public int priority() {
    access.part(PodPart.PRIORITY);
    return facts.getPriority();
  }

  /** spec.priorityClassName; empty if the pod has none. */
  public Optional<String> priorityClass() {
    access.part(PodPart.PRIORITY_CLASS);
    return Values.given(facts.getPriorityClassName());
  }

  /** The pod's effective requests, as kube-scheduler computes them. */
  public Resources requests() {
    access.part(PodPart.REQUESTS);
    return facts.getRequests();
  }

  /**
   * The requests with defaults for containers that request nothing, as kube-scheduler's scores
   * count them.
   */
  public NonZero nonzeroRequests() {
    access.part(PodPart.NONZERO_REQUESTS);
    return facts.getNonzeroRequests();
  }

  /** spec.tolerations, in order. */
  public List<Toleration> tolerations() {
    access.part(PodPart.TOLERATIONS);
    return facts.getTolerationsList();
  }

  /**
   * Whether one of the tolerations tolerates the taint, as in Kubernetes: an empty key or effect of
   * a toleration stands for every one, "Exists" ignores the value, an empty operator is "Equal".
   * Operators other than "Exists" and "Equal" tolerate nothing.
   */
  public boolean tolerates(Taint taint) {
    for (Toleration toleration : tolerations()) {
      if (tolerates(toleration, taint)) {
        return true;
      }
    }
    return false;
  }

  /** spec.nodeSelector. */
  public Map<String, String> nodeSelector() {
    access.part(PodPart.NODE_SELECTOR);
    return facts.getNodeSelectorMap();
  }

  /** spec.affinity.nodeAffinity, as written in the pod. Empty if the pod has none. */
  public Optional<NodeAffinity> nodeAffinity() {
    access.part(PodPart.NODE_AFFINITY);
    return facts.hasNodeAffinity() ? Optional.of(facts.getNodeAffinity()) : Optional.empty();
  }

  /** spec.volumes, in order, without the service account's volume. */
  public List<Volume> volumes() {
    access.part(PodPart.VOLUMES);
    return facts.getVolumesList();
  }

  /**
   * Names of the claims that the pod's volumes use, also those derived from the pod's name (which
   * pure verbs do not receive). A declaration has {@link PodPart#VOLUMES} and {@link
   * PodPart#IDENTITY} for them.
   */
  public List<String> claims() {
    access.part(PodPart.VOLUMES);
    access.part(PodPart.IDENTITY);
    Stream<String> named = facts.getVolumesList().stream().map(Volume::getClaim);
    Stream<String> derived = message.getIdentity().getClaimsList().stream();
    return Stream.concat(named.filter(claim -> !claim.isEmpty()), derived).toList();
  }

  /** spec.schedulerName. Empty if it is not set. */
  public Optional<String> schedulerName() {
    access.part(PodPart.SCHEDULER_NAME);
    return Values.given(facts.getSchedulerName());
  }

  /**
   * The pods in the cluster that are like this one: with the same owner, namespace, value of the
   * label or priority class, added up by topology, as the key declares. Only of the pod to be
   * placed.
   *
   * <p>Pods count from when they are bound until they have ended or are deleted; the pod of a call
   * is none of them, and neither are pods on nodes without the label. The counts lag behind like
   * those of {@link Node#podsLike}. For many nodes it is cheaper to call this once, in {@link
   * Policy#filterAll}. Empty if the pod lacks what is counted by: a pod without a controller has no
   * siblings.
   */
  public Optional<Domains> podsLike(TopologyKey key) {
    SentTopology sent = access.topology(key.topology);
    // A victim has no counts, and verbs with victims declare none.
    return key.topology
        .by()
        .of(this)
        .filter(attribute -> sent.position() < message.getTopologyCountsCount())
        .map(attribute -> new Domains(sent, attribute, message.getTopologyCounts(sent.position())));
  }

  /**
   * The name of the state of nodes and pods that the call is about: two calls of one gateway with
   * the same name are about the same state, such as the filter and the score of a pod. For
   * correlation, as in a log; an answer must not depend on it. Empty if there is none.
   */
  public Optional<String> snapshot() {
    return Values.given(call.getSnapshot());
  }

  /**
   * The cluster whose kube-scheduler calls, as the operator named it; empty if it has no name. An
   * answer of a pure verb must not depend on it.
   */
  public Optional<String> cluster() {
    return Values.given(call.getCluster());
  }

  /** The object's JSON, unchanged; empty unless {@link Info#rawPod} asks for it. */
  public Optional<String> rawJson() {
    return Values.given(message.getRawJson().toStringUtf8());
  }

  /**
   * The object as a model that Jackson reads, such as {@code io.fabric8.kubernetes.api.model.Pod}
   * or {@code com.fasterxml.jackson.databind.JsonNode}. Decoded by each call of this method. Empty
   * unless {@link Info#rawPod} asks for it.
   */
  public <T> Optional<T> raw(Class<T> model) {
    return message.getRawJson().isEmpty()
        ? Optional.empty()
        : Optional.of(Values.model(message.getRawJson(), model, "pod"));
  }

  private Map<String, String> map(Key.Which map) {
    return map == Key.Which.LABELS ? facts.getLabelsMap() : facts.getAnnotationsMap();
  }

  private Optional<String> value(Key.Which map, String key, int place) {
    if (place == Keys.Places.ENTRY) {
      return Optional.ofNullable(map(map).get(key));
    }
    return map == Key.Which.LABELS
        ? Values.at(
            place, facts::getLabelValues, facts.getAbsentLabelsCount(), facts::getAbsentLabels)
        : Values.at(
            place,
            facts::getAnnotationValues,
            facts.getAbsentAnnotationsCount(),
            facts::getAbsentAnnotations);
  }

  private static boolean tolerates(Toleration toleration, Taint taint) {
    boolean effect =
        toleration.getEffect().isEmpty() || toleration.getEffect().equals(taint.getEffect());
    boolean key = toleration.getKey().isEmpty() || toleration.getKey().equals(taint.getKey());
    boolean value =
        switch (toleration.getOperator()) {
          case "", "Equal" -> toleration.getValue().equals(taint.getValue());
          case "Exists" -> true;
          default -> false;
        };
    return effect && key && value;
  }
}
