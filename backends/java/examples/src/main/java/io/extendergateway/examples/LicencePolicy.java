package io.extendergateway.examples;

import io.extendergateway.examples.LicenceDatabase.Lease;
import io.extendergateway.examples.LicenceDatabase.Licence;
import io.extendergateway.examples.LicenceDatabase.Seats;
import io.extendergateway.policy.ArgsException;
import io.extendergateway.policy.Bind;
import io.extendergateway.policy.BindAsk;
import io.extendergateway.policy.BindFailedException;
import io.extendergateway.policy.Info;
import io.extendergateway.policy.Node;
import io.extendergateway.policy.NodeKey;
import io.extendergateway.policy.Normalization;
import io.extendergateway.policy.NotReadyException;
import io.extendergateway.policy.Pod;
import io.extendergateway.policy.PodKey;
import io.extendergateway.policy.PodPart;
import io.extendergateway.policy.Policy;
import io.extendergateway.policy.Reads;
import io.extendergateway.policy.Scale;
import io.extendergateway.policy.Verb;
import io.extendergateway.policy.Verdict;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Licences in use a host group: a pod that needs a product runs only where a seat of it is free.
 *
 * <p>What is declared, and why. Filter and score are per node: an answer depends on the pod, the
 * node and the database. They are not pure: the number of free seats changes with each pod that is
 * bound, so an answer must not be cached, and naming the data in the revision would make the
 * gateway repeat the handshake all the time; the revision is that of the program. They have no side
 * effects: they only read, so the gateway may also ask for what it does not decide (shadow mode,
 * explain), and gets the answer of now. Bind takes a lease: the SDK lets only PURPOSE_DECIDE reach
 * it. Two pods in a row can both see the last free seat, since nothing is reserved before the bind;
 * the second bind fails, and the pod is scheduled again.
 */
final class LicencePolicy implements Policy {
  private static final String NONE_FREE = "no licence seat is free in the node's host group";
  private static final String NO_GROUP = "node is in no host group with licences";
  private static final int MOST_SEATS = 1_000_000;

  private final LicenceDatabase database;
  private final Optional<Apiserver> apiserver;
  private final Args args;

  private final Reads reads = new Reads().pod(PodPart.IDENTITY);
  private final Reads bindReads = new Reads();
  private final PodKey product;
  private final PodKey boundProduct;
  private final NodeKey hostGroup;

  /** The operator's args; exactly one of the first two is given. */
  record Args(
      Optional<String> productLabel, Optional<String> productAnnotation, String hostGroupLabel) {
    Args {
      if (productLabel.isPresent() == productAnnotation.isPresent()) {
        throw new IllegalArgumentException(
            "expected either productLabel or productAnnotation, the key with the product that a pod needs");
      }
      if (hostGroupLabel.isEmpty()) {
        throw new ArgsException(
            "args.hostGroupLabel: is empty; expected the key of the label with a node's host group");
      }
    }
  }

  /** Binds if there is an apiserver. */
  LicencePolicy(LicenceDatabase database, Optional<Apiserver> apiserver, Args args) {
    this.database = database;
    this.apiserver = apiserver;
    this.args = args;
    product = product(reads);
    boundProduct = product(bindReads);
    hostGroup = reads.nodeLabel(args.hostGroupLabel);
  }

  private PodKey product(Reads from) {
    return args.productLabel
        .map(from::podLabel)
        .orElseGet(() -> from.podAnnotation(args.productAnnotation.orElseThrow()));
  }

  @Override
  public Info info() {
    Verb perNode = Verb.perNode().reads(reads);
    Scale seats = Scale.between(0, MOST_SEATS).normalize(Normalization.MAX);
    Info info = Info.of("licences", "1.0.0").filters(perNode).scores(perNode, seats);
    return apiserver.isPresent() ? info.binds(bindReads) : info;
  }

  @Override
  public void ready() throws NotReadyException {
    Seats unused = database.seats();
  }

  /** All nodes of a call are judged by the same data. */
  @Override
  public List<Verdict> filterAll(Pod pod, List<Node> nodes) {
    Optional<String> wanted = pod.get(product);
    List<Verdict> verdicts = new ArrayList<>(nodes.size());
    Seats seats = seats();
    for (Node node : nodes) {
      verdicts.add(wanted.isEmpty() ? Verdict.accept() : verdict(seats, pod, wanted.get(), node));
    }
    return verdicts;
  }

  private Verdict verdict(Seats seats, Pod pod, String wanted, Node node) {
    Optional<String> group = node.get(hostGroup);
    if (group.isEmpty()) {
      return Verdict.reject(NO_GROUP).byRule(wanted).unresolvable();
    }
    int free = seats.freeFor(pod.uid().orElse(""), new Licence(wanted, group.get()));
    // Whether evicting a pod ends its lease is up to the licence server.
    return free > 0 ? Verdict.accept() : Verdict.reject(NONE_FREE).byRule(wanted).unresolvable();
  }

  @Override
  public int[] scoreAll(Pod pod, List<Node> nodes) {
    Optional<String> wanted = pod.get(product);
    Seats seats = seats();
    return nodes.stream()
        .mapToInt(
            node ->
                wanted
                    .flatMap(name -> node.get(hostGroup).map(group -> new Licence(name, group)))
                    .map(licence -> seats.freeFor(pod.uid().orElse(""), licence))
                    .orElse(0))
        .map(free -> Math.max(0, Math.min(MOST_SEATS, free)))
        .toArray();
  }

  /** Checked by {@link #ready} a moment ago. */
  private Seats seats() {
    try {
      return database.seats();
    } catch (NotReadyException stale) {
      throw new IllegalStateException(stale.getMessage(), stale);
    }
  }

  /** Takes a lease, then creates the Binding. Repeated, both are found as they are. */
  @Override
  public Bind bind(BindAsk ask) throws BindFailedException, InterruptedException {
    Pod pod =
        ask.pod()
            .orElseThrow(
                () ->
                    new BindFailedException(
                        "the gateway does not know the pod, so its product is unknown; set pods.source: Watch"));
    Optional<String> wanted = pod.get(boundProduct);
    if (wanted.isEmpty()) {
      return Bind.declined("the pod needs no licence");
    }
    Apiserver cluster = apiserver.orElseThrow();
    // Bind is sent no labels of nodes.
    String group =
        cluster
            .nodeLabel(ask.node(), args.hostGroupLabel)
            .orElseThrow(() -> new BindFailedException(NO_GROUP));
    Lease lease = take(ask.uid(), new Licence(wanted.get(), group));
    if (lease == Lease.NONE_FREE) {
      throw new BindFailedException(NONE_FREE);
    }
    // If the end of this is not known, the lease stays: the pod may be bound, and the call is
    // repeated if not.
    Apiserver.Outcome outcome = cluster.bind(ask.namespace(), ask.name(), ask.uid(), ask.node());
    if (outcome == Apiserver.Outcome.BOUND) {
      return Bind.bound();
    }
    if (lease == Lease.TAKEN) {
      release(ask.uid());
    }
    throw new BindFailedException("the apiserver refused the Binding");
  }

  private Lease take(String uid, Licence licence) throws BindFailedException {
    try {
      return database.take(uid, licence);
    } catch (SQLException failed) {
      throw new BindFailedException("no lease could be taken: " + failed.getMessage(), failed);
    }
  }

  private void release(String uid) throws BindFailedException {
    try {
      database.release(uid);
    } catch (SQLException failed) {
      throw new BindFailedException("a lease could not be ended: " + failed.getMessage(), failed);
    }
  }
}
