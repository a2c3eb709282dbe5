package io.extendergateway.policy;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;

/**
 * A policy: which nodes a pod may not run on, and how good the others are for it.
 *
 * <p>A small policy implements {@link #info} and one of {@link #filter}, {@link #score} and {@link
 * #preempt}. Hooks, such as {@link #beforeFilter}, change what the backends of a call are told.
 * Methods are called by several threads at once, one for each processor. All but {@link #bind}
 * should not wait for anything: they would keep other calls waiting. They may throw: that call
 * fails with INTERNAL, the next one is answered.
 */
public non-sealed interface Policy extends Source {
  /**
   * The score of a node about which the policy has no opinion: no normalization counts it, and it
   * adds nothing to the total of the node. The least {@code int}, which therefore is no score.
   */
  int NO_OPINION = Integer.MIN_VALUE;

  /**
   * What this policy is, and which data it needs. Called once, before the first call. A verb that
   * it declares needs one of its methods.
   */
  Info info();

  /**
   * The policy that answers from now on: this one, or a newer one that took its place, because what
   * it was made from has changed: a file, or the time of day. Called before each handshake and each
   * call, so it must be cheap. The newer one has another {@link Info#revision}, with which the
   * gateway drops the answers that it has cached: so a verb that depends on such a thing may still
   * be pure. If it declares other reads, this one still answers the calls that were made for it.
   */
  default Policy current() {
    return this;
  }

  /**
   * May the pod run on this node? Called only if {@link #info} declares it with {@link
   * Info#filters}.
   */
  default Verdict filter(Pod pod, Node node) {
    return Verdict.accept();
  }

  /**
   * How good is this node for the pod? Called also for nodes that {@link #filter} rejects, if both
   * are per node: scores then come in one round with the verdicts. Larger is better, unless the
   * declared {@link Scale} is reversed; {@link #NO_OPINION} where the policy has none. Called only
   * if {@link #info} declares it with {@link Info#scores}.
   *
   * <p>A sum that may exceed an {@code int} is best computed as a {@code long} and returned by
   * {@link Math#toIntExact}, which fails the call instead of wrapping around, or by clamping it.
   */
  default int score(Pod pod, Node node) {
    return 0;
  }

  /**
   * May these pods be evicted to make room for the pod on this node? Called only if {@link #info}
   * declares it with {@link Info#preempts}. kube-scheduler takes one of the nodes that all policies
   * leave.
   */
  default Eviction preempt(Pod pod, Candidate candidate) {
    return Eviction.all();
  }

  /**
   * One verdict for each node, of at least one, in their order. A policy overrides this if nodes
   * depend on one another (then it declares {@link Verb#wholeSet}), or to compute something about
   * the pod once for all nodes.
   */
  default List<Verdict> filterAll(Pod pod, List<Node> nodes) {
    return Answer.each(nodes, node -> filter(pod, node));
  }

  /**
   * One score for each node, in their order; overridden for the same reasons as {@link #filterAll}.
   */
  default int[] scoreAll(Pod pod, List<Node> nodes) {
    return nodes.stream().mapToInt(node -> score(pod, node)).toArray();
  }

  /**
   * One answer for each candidate, in their order; overridden for the same reasons as {@link
   * #filterAll}. This verb is called in turn, whatever it declares.
   */
  default List<Eviction> preemptAll(Pod pod, List<Candidate> candidates) {
    return Answer.each(candidates, candidate -> preempt(pod, candidate));
  }

  /**
   * Binds the pod to the node, or declines. Called only if {@link #info} declares it with {@link
   * Info#binds()}, and only when kube-scheduler is binding. It may be called again for the same pod
   * and node: an existing binding is {@link Bind#bound} again. May wait: it runs on a thread of its
   * own, which is interrupted when the caller cancels or no time is left.
   *
   * @throws BindFailedException if the pod could not be bound: the call fails with UNAVAILABLE and
   *     this text
   * @throws Exception any other failure: the call fails with INTERNAL
   */
  default Bind bind(BindAsk ask) throws Exception {
    return Bind.declined("this policy does not bind");
  }

  /**
   * The same for a policy whose client does not block; by default {@link #bind} on one of the
   * threads for calls that wait. A {@link CompletableFuture} is cancelled when the caller cancels
   * or no time is left.
   */
  default CompletionStage<Bind> bindAsync(BindAsk ask, Executor waiting) {
    return Waiting.run(
        () -> {
          try {
            return bind(ask);
          } catch (RuntimeException | Error failure) {
            throw failure;
          } catch (Exception failure) {
            throw new CompletionException(failure);
          }
        },
        waiting);
  }

  /**
   * What the backends of this call are told about the pod instead, while nodes are filtered. Called
   * only if {@link #info} declares it with {@link Info#beforeFilter}.
   */
  default PodChange beforeFilter(Pod pod) {
    return PodChange.none();
  }

  /**
   * What the backends of this call are told about this node instead, while nodes are filtered.
   * Called only if {@link #info} declares it with {@link Info#beforeFilterNodes}.
   */
  default NodeChange beforeFilterNode(Pod pod, Node node) {
    return NodeChange.none();
  }

  /**
   * One change for each node, in their order; overridden for the same reasons as {@link
   * #filterAll}.
   */
  default List<NodeChange> beforeFilterNodes(Pod pod, List<Node> nodes) {
    return Answer.each(nodes, node -> beforeFilterNode(pod, node));
  }

  /**
   * What the backends of this call are told about the pod instead, while nodes are scored. Called
   * only if {@link #info} declares it with {@link Info#beforeScore}.
   */
  default PodChange beforeScorePod(Pod pod) {
    return PodChange.none();
  }

  /**
   * What the backends of this call are told about this node instead, while nodes are scored. Called
   * only if {@link #info} declares it with {@link Info#beforeScore}.
   */
  default NodeChange beforeScoreNode(Pod pod, Node node) {
    return NodeChange.none();
  }

  /**
   * The change of the pod, and one for each node, in their order; overridden for the same reasons
   * as {@link #filterAll}.
   */
  default Changes beforeScore(Pod pod, List<Node> nodes) {
    List<NodeChange> changes = Answer.each(nodes, node -> beforeScoreNode(pod, node));
    return new Changes(beforeScorePod(pod), changes);
  }

  /**
   * How an attempt to place a pod ended about which this backend was asked. Called only if {@link
   * #info} declares it with {@link Info#observesOutcomes}, in the order in which outcomes became
   * known, also of pods that the policy does not know.
   *
   * <p>The same outcome can come again, from another replica of the gateway, or because an answer
   * was lost: that must change nothing. It may also come when the next attempt has begun: a policy
   * that reserves keeps the {@linkplain Pod#callId id} of its latest call with the reservation, and
   * undoes only that call's; the other kinds hold whichever call it was. If this throws, the
   * gateway sends all outcomes of the request again, up to 256, those that were observed included.
   *
   * <pre>{@code
   * public void observe(Outcome outcome) {
   *   switch (outcome.kind()) {
   *     case BOUND -> reserved.keep(outcome.uid(), outcome.node().orElseThrow());
   *     case NOT_BOUND, SUPERSEDED -> reserved.remove(outcome.uid(), outcome.call());
   *     case DELETED -> reserved.remove(outcome.uid());
   *   }
   * }
   * }</pre>
   *
   * <p>Must be quick: it takes the time of other calls, and the gateway waits 5 s for a request.
   * What takes long belongs on a thread of the policy's own.
   *
   * @throws Exception if the outcome is to come again: the request fails with INTERNAL
   */
  default void observe(Outcome outcome) throws Exception {}

  /**
   * Can the policy decide now? Called before each call of a verb or a hook, and not for an {@link
   * Introspection} or an {@link Outcome}. A policy whose data is missing or stale (its price list
   * is a day old) throws, and the failure policy that the operator chose decides.
   *
   * @throws NotReadyException if it cannot: the call fails with UNAVAILABLE and this text
   */
  default void ready() throws NotReadyException {}
}
