package io.extendergateway.examples;

import io.extendergateway.policy.ArgDefault;
import io.extendergateway.policy.Backend;
import io.extendergateway.policy.Bind;
import io.extendergateway.policy.BindAsk;
import io.extendergateway.policy.BindFailedException;
import io.extendergateway.policy.Candidate;
import io.extendergateway.policy.ChangedPart;
import io.extendergateway.policy.Eviction;
import io.extendergateway.policy.Hook;
import io.extendergateway.policy.Info;
import io.extendergateway.policy.Node;
import io.extendergateway.policy.NodeChange;
import io.extendergateway.policy.NodeKey;
import io.extendergateway.policy.NodePart;
import io.extendergateway.policy.Normalization;
import io.extendergateway.policy.Pod;
import io.extendergateway.policy.PodChange;
import io.extendergateway.policy.PodKey;
import io.extendergateway.policy.PodPart;
import io.extendergateway.policy.PodsBy;
import io.extendergateway.policy.PodsKey;
import io.extendergateway.policy.PodsLike;
import io.extendergateway.policy.Policy;
import io.extendergateway.policy.PolicyServer;
import io.extendergateway.policy.Reads;
import io.extendergateway.policy.Scale;
import io.extendergateway.policy.Verb;
import io.extendergateway.policy.Verdict;
import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.Resources;
import io.extendergateway.policy.v1beta1.Taint;
import io.extendergateway.policy.v1beta1.Toleration;
import java.util.Optional;

/**
 * Uses most of what the SDK has. The SDKs of all languages have this policy, with the same answers:
 * it is for comparing them, and for learning, and decides nothing useful.
 */
public final class Reference implements Policy {
  private static final int LEAST_SCORE = -1000;
  private static final int LARGEST_SCORE = 1_000_000;
  private static final long MOST_CPU = 2_000_000_000;

  private static final Verdict CLOSED =
      Verdict.reject("zone is closed").byRule("zone").unresolvable();
  private static final Verdict TAINTED =
      Verdict.reject("taint is not tolerated").byRule("taints").unresolvable();
  private static final Verdict FULL = Verdict.reject("not enough CPU").byRule("cpu");
  private static final Verdict CROWDED =
      Verdict.reject("too many pods of one owner").byRule("owner").unresolvable();

  private static final NodeChange ZONELESS =
      NodeChange.none()
          .addTaint(Taint.newBuilder().setKey("zone").setEffect("PreferNoSchedule").build())
          .removeTaint(Taint.newBuilder().setKey("zoneless").build());
  private static final NodeChange RESERVED =
      NodeChange.none()
          .addAllocatable(
              Resources.newBuilder().setMilliCpu(1000).putOthers("example.com/slots", 1).build())
          .reason("reserved for the app");
  private static final NodeChange EMPTIED =
      NodeChange.none()
          .setLabel("zone", "closed")
          .addUsage(
              NodeUsage.newBuilder()
                  .setRequested(Resources.newBuilder().setMilliCpu(-100).setPods(-1))
                  .build())
          .reason("closed");
  private static final NodeChange UNLABELED = NodeChange.none().removeLabel("zone");

  private final Args args;
  private final Reads reads =
      new Reads()
          .node(NodePart.TAINTS, NodePart.ALLOCATABLE, NodePart.NAME)
          .pod(PodPart.REQUESTS, PodPart.TOLERATIONS);
  private final NodeKey zone = reads.nodeLabel("zone");
  private final PodKey app = reads.podLabel("app");
  private final PodsKey siblings = reads.podsBy(PodsBy.owner());

  /** The operator's args. */
  public record Args(String zone, @ArgDefault("3") int most) {
    /** Checks the number. */
    public Args {
      if (most < 1 || most > 1000) {
        throw new IllegalArgumentException("most is %d; expected 1 to 1000".formatted(most));
      }
    }
  }

  /** With these args. */
  public Reference(Args args) {
    this.args = args;
  }

  @Override
  public Info info() {
    Verb perNode = Verb.perNode().pure().reads(reads);
    Scale scale = Scale.between(LEAST_SCORE, LARGEST_SCORE).normalize(Normalization.MIN_MAX);
    Reads priority = new Reads().pod(PodPart.PRIORITY);
    return Info.of("reference", "1")
        .revision("reference-1")
        .filters(perNode)
        .scores(perNode, scale)
        .preempts(Verb.perNode().reads(priority))
        .binds(new Reads())
        .beforeFilter(
            Hook.changes(
                    ChangedPart.POD_LABELS,
                    ChangedPart.POD_NODE_SELECTOR,
                    ChangedPart.POD_TOLERATIONS,
                    ChangedPart.POD_REQUESTS)
                .pure()
                .reads(theApp()))
        .beforeFilterNodes(
            Hook.changes(ChangedPart.NODE_ALLOCATABLE, ChangedPart.NODE_TAINTS)
                .pure()
                .reads(appAndZone()))
        .beforeScore(
            Hook.changes(ChangedPart.POD_LABELS, ChangedPart.NODE_LABELS, ChangedPart.NODE_USAGE)
                .reads(appAndZone()));
  }

  private static Reads theApp() {
    Reads reads = new Reads();
    reads.podLabel("app");
    return reads;
  }

  private static Reads appAndZone() {
    Reads reads = theApp();
    reads.nodeLabel("zone");
    return reads;
  }

  @Override
  public Verdict filter(Pod pod, Node node) {
    if (node.get(zone).filter(args.zone()::equals).isPresent()) {
      return CLOSED;
    }
    for (Taint taint : node.taints()) {
      if (repels(taint) && !pod.tolerates(taint)) {
        return TAINTED;
      }
    }
    if (pod.requests().getMilliCpu() > milliCpu(node)) {
      return FULL;
    }
    Optional<PodsLike> like = node.podsLike(siblings, pod);
    return like.isPresent() && like.get().atMost() >= args.most() ? CROWDED : Verdict.accept();
  }

  private static boolean repels(Taint taint) {
    return taint.getEffect().equals("NoSchedule") || taint.getEffect().equals("NoExecute");
  }

  private static long milliCpu(Node node) {
    return node.allocatable().map(Resources::getMilliCpu).orElse(0L);
  }

  @Override
  public int score(Pod pod, Node node) {
    long score = Math.max(0, Math.min(MOST_CPU, milliCpu(node))) / 100;
    score -= 50L * node.taints().size();
    Optional<String> wanted = pod.get(app);
    if (wanted.isPresent() && wanted.equals(node.get(zone))) {
      score += 10;
    }
    return (int) Math.max(LEAST_SCORE, Math.min(LARGEST_SCORE, score));
  }

  @Override
  public Eviction preempt(Pod pod, Candidate candidate) {
    return Eviction.of(
        candidate,
        victim -> victim.pod().filter(known -> known.priority() < pod.priority()).isPresent());
  }

  @Override
  public Bind bind(BindAsk ask) throws BindFailedException {
    if (ask.namespace().equals("system")) {
      return Bind.declined("namespace system is bound elsewhere");
    }
    if (ask.node().equals("broken")) {
      throw new BindFailedException("node broken refuses pods");
    }
    return Bind.bound();
  }

  @Override
  public PodChange beforeFilter(Pod pod) {
    Optional<String> wanted = pod.get(app);
    if (wanted.isEmpty()) {
      return PodChange.none();
    }
    if (wanted.get().equals(args.zone())) {
      return PodChange.none().removeLabel("app").reason("the zone is no app");
    }
    return PodChange.none()
        .addRequests(Resources.newBuilder().setMilliCpu(500).build())
        .setNodeSelector("zone", args.zone())
        .addToleration(Toleration.newBuilder().setKey("app").setOperator("Exists").build())
        .reason("apps need more");
  }

  @Override
  public NodeChange beforeFilterNode(Pod pod, Node node) {
    Optional<String> in = node.get(zone);
    if (in.isEmpty()) {
      return ZONELESS;
    }
    return in.equals(pod.get(app)) ? RESERVED : NodeChange.none();
  }

  @Override
  public PodChange beforeScorePod(Pod pod) {
    return pod.get(app)
        .map(wanted -> PodChange.none().setLabel("app", args.zone()))
        .orElse(PodChange.none());
  }

  @Override
  public NodeChange beforeScoreNode(Pod pod, Node node) {
    Optional<String> in = node.get(zone);
    if (in.isEmpty()) {
      return UNLABELED;
    }
    return in.get().equals(args.zone()) ? EMPTIED : NodeChange.none();
  }

  /** Serves the policy. */
  public static void main(String[] arguments) {
    PolicyServer.run(arguments, Backend.configured(Args.class, Reference::new));
  }
}
