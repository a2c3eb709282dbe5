package io.extendergateway.policy;

import io.extendergateway.policy.Layout.SentTopology;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.Container;
import io.extendergateway.policy.v1beta1.MapValues;
import io.extendergateway.policy.v1beta1.NodeAffinity;
import io.extendergateway.policy.v1beta1.NonZero;
import io.extendergateway.policy.v1beta1.OwnerReference;
import io.extendergateway.policy.v1beta1.PodAffinity;
import io.extendergateway.policy.v1beta1.PodFacts;
import io.extendergateway.policy.v1beta1.ResourceClaim;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Taint;
import io.extendergateway.policy.v1beta1.Toleration;
import io.extendergateway.policy.v1beta1.TopologySpreadConstraint;
import io.extendergateway.policy.v1beta1.Volume;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The pod to be placed, or one that would be evicted. It has what the verb declares with {@link
 * Verb#reads}: all methods that read something else throw {@link UndeclaredReadException}. Valid
 * for the duration of the call.
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

  /** The same pod in another verb, which reads the same. */
  Pod in(Verb verb) {
    return new Pod(message, access.in(verb), call);
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

  /** metadata.name; empty if the pod has none yet. */
  public Optional<String> name() {
    access.part(PodPart.IDENTITY);
    return Values.given(message.getIdentity().getName());
  }

  /** metadata.uid; empty if the pod has none yet. */
  public Optional<String> uid() {
    access.part(PodPart.IDENTITY);
    return Values.given(message.getIdentity().getUid());
  }

  /** metadata.creationTimestamp; empty if the pod has none yet. */
  public Optional<Instant> created() {
    access.part(PodPart.IDENTITY);
    var identity = message.getIdentity();
    return identity.hasCreatedSeconds()
        ? Optional.of(Instant.ofEpochSecond(identity.getCreatedSeconds()))
        : Optional.empty();
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

  /** All labels. The prefix "" declares them, and {@link Reads#everything} does. */
  public Map<String, String> labels() {
    access.entries(Key.Which.LABELS, "");
    return map(Key.Which.LABELS).getEntriesMap();
  }

  /** The value of an annotation. */
  public Optional<String> annotation(String key) {
    return value(Key.Which.ANNOTATIONS, key, access.text(Key.Which.ANNOTATIONS, key));
  }

  /** All annotations. The prefix "" declares them. */
  public Map<String, String> annotations() {
    access.entries(Key.Which.ANNOTATIONS, "");
    return map(Key.Which.ANNOTATIONS).getEntriesMap();
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
   * Names of the claims that the pod's volumes use, also those derived from the pod's name: {@link
   * PodPart#VOLUMES} and {@link PodPart#IDENTITY} declare them. A pure verb reads {@link #volumes}.
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

  /** spec.initContainers and spec.containers, in this order, with their host ports. */
  public List<Container> containers() {
    access.part(PodPart.CONTAINERS);
    return facts.getContainersList();
  }

  /**
   * spec.affinity.podAffinity and podAntiAffinity, as written in the pod. Empty if the pod has
   * none.
   */
  public Optional<PodAffinity> podAffinity() {
    access.part(PodPart.POD_AFFINITY);
    return facts.hasPodAffinity() ? Optional.of(facts.getPodAffinity()) : Optional.empty();
  }

  /** spec.topologySpreadConstraints, in order. */
  public List<TopologySpreadConstraint> topologySpread() {
    access.part(PodPart.TOPOLOGY_SPREAD);
    return facts.getTopologySpreadList();
  }

  /** spec.resourceClaims, in order. */
  public List<ResourceClaim> resourceClaims() {
    access.part(PodPart.RESOURCE_CLAIMS);
    return facts.getResourceClaimsList();
  }

  /** spec.schedulingGroup.podGroupName: the PodGroup of the pod; empty if it is in none. */
  public Optional<String> podGroup() {
    access.part(PodPart.POD_GROUP);
    return Values.given(facts.getPodGroupName());
  }

  /** spec.runtimeClassName; empty if the pod has none. */
  public Optional<String> runtimeClass() {
    access.part(PodPart.RUNTIME_CLASS);
    return Values.given(facts.getRuntimeClassName());
  }

  /**
   * spec.preemptionPolicy, such as "Never". Empty if it is not set, which means
   * "PreemptLowerPriority".
   */
  public Optional<String> preemptionPolicy() {
    access.part(PodPart.PREEMPTION_POLICY);
    return Values.given(facts.getPreemptionPolicy());
  }

  /** spec.serviceAccountName. Empty if it is not set. */
  public Optional<String> serviceAccount() {
    access.part(PodPart.SERVICE_ACCOUNT);
    return Values.given(facts.getServiceAccountName());
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

  /**
   * The id of the call, another one in each call. A policy with side effects keeps it with what it
   * has reserved, and finds it again in {@link Outcome#call}. A {@linkplain Verb#pure pure} verb
   * cannot read it: this throws {@link UndeclaredReadException} there.
   */
  public String callId() {
    access.callId();
    return call.getId();
  }

  /**
   * The same logger, whose lines begin with the id of the call and with namespace and name of the
   * pod, as far as they are read. Also for a pure verb: it is for correlation.
   */
  public System.Logger logger(System.Logger logger) {
    return new PodLogger(logger, subject());
  }

  /** The call and the pod, for people. What is not read is not sent either. */
  String subject() {
    String name = message.getIdentity().getName();
    return PodLogger.subject(call.getId(), PodLogger.pod(facts.getNamespace(), name));
  }

  /** The object's JSON, unchanged; empty if the gateway does not have it. */
  public Optional<String> rawJson() {
    access.part(PodPart.RAW_JSON);
    return Values.given(message.getRawJson().toStringUtf8());
  }

  /**
   * The object as a model that Jackson reads, such as {@code io.fabric8.kubernetes.api.model.Pod}
   * or {@code com.fasterxml.jackson.databind.JsonNode}. Decoded by each call of this method. Empty
   * if the gateway does not have its JSON.
   */
  public <T> Optional<T> raw(Class<T> model) {
    access.part(PodPart.RAW_JSON);
    return message.getRawJson().isEmpty()
        ? Optional.empty()
        : Optional.of(Values.model(message.getRawJson(), model, "pod"));
  }

  private MapValues map(Key.Which map) {
    return map == Key.Which.LABELS ? facts.getLabels() : facts.getAnnotations();
  }

  private Optional<String> value(Key.Which map, String key, int place) {
    return Values.at(place, map(map), key);
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
