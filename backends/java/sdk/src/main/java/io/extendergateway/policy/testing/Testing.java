package io.extendergateway.policy.testing;

import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_FILTER;
import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_FILTER_NODES;
import static io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_SCORE;
import static io.extendergateway.policy.v1beta1.Verb.VERB_FILTER;
import static io.extendergateway.policy.v1beta1.Verb.VERB_SCORE;

import io.extendergateway.policy.Backend;
import io.extendergateway.policy.Bind;
import io.extendergateway.policy.Changes;
import io.extendergateway.policy.NodeChange;
import io.extendergateway.policy.Outcome;
import io.extendergateway.policy.PodChange;
import io.extendergateway.policy.Policy;
import io.extendergateway.policy.Rehearsal;
import io.extendergateway.policy.Rehearsal.InCluster;
import io.extendergateway.policy.Source;
import io.extendergateway.policy.Verdict;
import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.BindResponse;
import io.extendergateway.policy.v1beta1.FilterRequest;
import io.extendergateway.policy.v1beta1.GetInfoResponse;
import io.extendergateway.policy.v1beta1.IntrospectRequest;
import io.extendergateway.policy.v1beta1.KeptCandidate;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.Rejection;
import io.extendergateway.policy.v1beta1.RejectionKind;
import io.extendergateway.policy.v1beta1.Scores;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/**
 * Tries a policy on a pod and some nodes without a server, through the same code that answers
 * calls.
 *
 * <pre>{@code
 * List<TestNode> nodes =
 *     List.of(
 *         new TestNode("old").label("kubernetes.io/arch", "amd64"),
 *         new TestNode("new").label("kubernetes.io/arch", "arm64"));
 * assertEquals(
 *     List.of(
 *         new Rejected(
 *             "new", Verdict.reject("arm64 nodes are not in use yet").unresolvable())),
 *     Testing.filter(new NoArm(), new TestPod("shop"), nodes));
 * }</pre>
 *
 * <p>A verb gets what the gateway would send for its {@link io.extendergateway.policy.Verb#reads},
 * so a test fails if the policy reads anything else. {@link #everything} is the same policy with
 * nothing left out: if both give the same answers about random pods and nodes, the declaration is
 * complete.
 *
 * <p>The {@linkplain io.extendergateway.policy.Pod#callId id} of each call is {@code test}.
 *
 * <p>All methods throw {@link NoAnswerException} with the text that the gateway would log if the
 * policy gives no answer: the verb is not declared, the policy is not ready, it failed. So they do
 * for what the policy API forbids: a reason that is empty or has control characters, reasons of two
 * nodes that differ only in a number, a score outside of the scale, a pure verb that answers
 * otherwise when it is asked again about the nodes in another order.
 */
public final class Testing {
  private Testing() {}

  /** A rejected node, and the verdict as the gateway gets it. */
  public record Rejected(String node, Verdict verdict) {
    /** For people. */
    public String reason() {
      return verdict.reason();
    }
  }

  /** A node that remains a candidate. */
  public record Kept(String node, List<String> evicted) {}

  /** The policy's answer to the handshake. */
  public static GetInfoResponse info(Source policy) {
    return Rehearsal.of(policy).info();
  }

  /** The policy that {@link Backend#configured} builds from these args. */
  public static Backend withArgs(Backend backend, String args) {
    return Rehearsal.withArgs(backend, args);
  }

  /** The policy, reading all that its verbs may declare: nothing that they may read is left out. */
  public static Backend everything(Policy policy) {
    return Rehearsal.readingEverything(policy);
  }

  /** A pod and nodes of a cluster. */
  public record Recorded(TestPod pod, List<TestNode> nodes) {}

  /**
   * The pod and the nodes that {@code extender-gateway try --objects FILE} has written, from files
   * of Kubernetes or from a cluster.
   *
   * @throws IllegalArgumentException if the file cannot be read, or is not such a file
   */
  public static Recorded recorded(Path file) {
    try (InputStream bytes = Files.newInputStream(file)) {
      FilterRequest request = FilterRequest.parseFrom(bytes);
      List<NodeRow> rows = request.getNodes().getRows().getRowsList();
      if (!request.hasPod() || rows.isEmpty() || rows.size() != request.getNodes().getCount()) {
        throw new IOException("it has no pod, or not all nodes");
      }
      return new Recorded(TestPod.of(request.getPod()), rows.stream().map(TestNode::of).toList());
    } catch (IOException wrong) {
      String why = wrong instanceof NoSuchFileException ? "it does not exist" : wrong.getMessage();
      throw new IllegalArgumentException(
          "%s is no file of objects: %s; write it with extender-gateway try --objects"
              .formatted(file, why),
          wrong);
    }
  }

  /** The rejected nodes in the order given, each with its verdict. */
  public static List<Rejected> filter(Source policy, TestPod pod, List<TestNode> nodes) {
    List<Verdict> verdicts =
        Mistakes.perNode(policy, VERB_FILTER, nodes, asked -> verdicts(policy, pod, asked));
    List<Rejected> rejected = new ArrayList<>();
    for (int position = 0; position < nodes.size(); position++) {
      if (!verdicts.get(position).isAccepted()) {
        rejected.add(new Rejected(nodes.get(position).name(), verdicts.get(position)));
      }
    }
    Mistakes.checkReasons(rejected);
    return rejected;
  }

  private static List<Verdict> verdicts(Source policy, TestPod pod, List<TestNode> nodes) {
    List<Verdict> verdicts = new ArrayList<>(Collections.nCopies(nodes.size(), Verdict.accept()));
    for (Rejection group :
        Rehearsal.of(policy).filter(pod.message(), inCluster(nodes)).getRejectionsList()) {
      Verdict verdict = verdict(group);
      group.getPositionsList().forEach(position -> verdicts.set(position, verdict));
    }
    return verdicts;
  }

  private static Verdict verdict(Rejection sent) {
    Verdict verdict = Verdict.reject(sent.getReason()).byRule(sent.getRule());
    if (sent.getKind() == RejectionKind.REJECTION_KIND_UNRESOLVABLE) {
      verdict = verdict.unresolvable();
    }
    return sent.hasRetryAfterSeconds()
        ? verdict.retryAfter(
            Duration.ofSeconds(Integer.toUnsignedLong(sent.getRetryAfterSeconds())))
        : verdict;
  }

  /** The raw scores, one a node, in the order given; {@link Policy#NO_OPINION} as it is. */
  public static List<Integer> score(Source policy, TestPod pod, List<TestNode> nodes) {
    Rehearsal asked = Rehearsal.of(policy);
    List<Integer> scores =
        Mistakes.perNode(
            policy,
            VERB_SCORE,
            nodes,
            each -> scores(asked.score(pod.message(), inCluster(each)).getScores()));
    Mistakes.checkScores(policy, nodes, scores);
    return scores;
  }

  private static List<Integer> scores(Scores sent) {
    List<Integer> scores = new ArrayList<>(sent.getValuesList());
    sent.getAbsentList().forEach(position -> scores.set(position, Policy.NO_OPINION));
    return scores;
  }

  /** The candidates that stay, in the order given. */
  public static List<Kept> preempt(Source policy, TestPod pod, List<TestCandidate> candidates) {
    List<InCluster> nodes =
        candidates.stream().map(candidate -> candidate.node().inCluster()).toList();
    var messages = candidates.stream().map(TestCandidate::message).toList();
    List<Kept> stay = new ArrayList<>();
    for (KeptCandidate kept :
        Rehearsal.of(policy).preempt(pod.message(), nodes, messages).getKeptList()) {
      TestCandidate candidate = candidates.get(kept.getPosition());
      stay.add(new Kept(candidate.node().name(), candidate.uids(kept.getVictimsList())));
    }
    return stay;
  }

  /**
   * The result of binding the pod to this node. A pod without identity is named {@code pod} and has
   * UID {@code uid}.
   */
  public static Bind bind(Source policy, TestPod pod, String node) {
    var message = pod.message();
    boolean named = message.hasIdentity();
    BindResponse response =
        Rehearsal.of(policy)
            .bind(
                BindRequest.newBuilder()
                    .setNamespace(message.getFacts().getNamespace())
                    .setName(named ? message.getIdentity().getName() : "pod")
                    .setUid(named ? message.getIdentity().getUid() : "uid")
                    .setNode(node)
                    .setPod(message)
                    .build());
    return switch (response.getOutcome()) {
      case BIND_OUTCOME_BOUND -> Bind.bound();
      case BIND_OUTCOME_NOT_BOUND -> Bind.notBound(response.getMessage());
      default -> Bind.declined(response.getMessage());
    };
  }

  /** What the policy changes about the pod before nodes are filtered. */
  public static PodChange beforeFilter(Source policy, TestPod pod) {
    Rehearsal asked = Rehearsal.of(policy);
    return Mistakes.ofPod(policy, VERB_BEFORE_FILTER, () -> asked.beforeFilter(pod.message()));
  }

  /**
   * What the policy changes about nodes before they are filtered, one change a node, in the order
   * given.
   */
  public static List<NodeChange> beforeFilterNodes(
      Source policy, TestPod pod, List<TestNode> nodes) {
    Rehearsal asked = Rehearsal.of(policy);
    return Mistakes.perNode(
        policy,
        VERB_BEFORE_FILTER_NODES,
        nodes,
        each -> asked.beforeFilterNodes(pod.message(), inCluster(each)));
  }

  /** What the policy changes about the pod and nodes before they are scored. */
  public static Changes beforeScore(Source policy, TestPod pod, List<TestNode> nodes) {
    Rehearsal asked = Rehearsal.of(policy);
    List<Changes> answers = new ArrayList<>();
    Mistakes.perNode(
        policy,
        VERB_BEFORE_SCORE,
        nodes,
        each -> {
          answers.add(asked.beforeScore(pod.message(), inCluster(each)));
          return answers.get(answers.size() - 1).nodes();
        });
    return answers.get(0);
  }

  /** Tells the policy how attempts to place pods ended. */
  public static void observe(Source policy, Outcome... outcomes) {
    Rehearsal.of(policy).observe(List.of(outcomes));
  }

  /**
   * What a path of the policy shows.
   *
   * @param path the path as it is declared, such as {@code /quotas/:namespace}
   */
  public static String introspect(
      Source policy, String path, Map<String, String> parameters, Map<String, String> query) {
    IntrospectRequest request =
        IntrospectRequest.newBuilder()
            .setBackend("rehearsal")
            .setPath(path)
            .putAllParameters(parameters)
            .putAllQuery(query)
            .build();
    return Rehearsal.of(policy).introspect(request).getJson().toStringUtf8();
  }

  private static List<InCluster> inCluster(List<TestNode> nodes) {
    return nodes.stream().map(TestNode::inCluster).toList();
  }
}
