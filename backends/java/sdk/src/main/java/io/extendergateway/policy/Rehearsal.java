package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.Declaration.Terms;
import io.extendergateway.policy.testing.NoAnswerException;
import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.BindResponse;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.Candidate;
import io.extendergateway.policy.v1beta1.ChangeRequest;
import io.extendergateway.policy.v1beta1.ChangeResponse;
import io.extendergateway.policy.v1beta1.FilterResponse;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.GetInfoResponse;
import io.extendergateway.policy.v1beta1.IntrospectRequest;
import io.extendergateway.policy.v1beta1.IntrospectResponse;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.NodeRows;
import io.extendergateway.policy.v1beta1.Nodes;
import io.extendergateway.policy.v1beta1.PreemptRequest;
import io.extendergateway.policy.v1beta1.PreemptResponse;
import io.extendergateway.policy.v1beta1.Purpose;
import io.extendergateway.policy.v1beta1.ReportRequest;
import io.extendergateway.policy.v1beta1.ReportResponse;
import io.extendergateway.policy.v1beta1.ScoreResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionStage;

/**
 * Answers calls without a server, through the code that answers calls: what {@link
 * io.extendergateway.policy.testing.Testing} is made of. Pods and nodes are given in full, and sent
 * as the gateway would send them for the declaration of the verb.
 */
public final class Rehearsal {
  private final Backend backend;
  private final Answer answer;
  private final Introspections introspections;

  private Rehearsal(Backend backend) {
    this.backend = backend;
    Questions questions = new Questions(backend, new Tables());
    answer = new Answer(backend, questions, task -> new Thread(task, "bind").start());
    introspections = new Introspections(backend, Runnable::run);
  }

  /** A node and the pods on it. */
  public record InCluster(NodeRow row, List<Running> pods) {}

  /** Equal pods on a node. */
  public record Running(io.extendergateway.policy.v1beta1.Pod pod, int pods, int terminating) {}

  /** For this policy or backend. */
  public static Rehearsal of(Source source) {
    return new Rehearsal(Backend.of(source));
  }

  /** The policy, reading all that may be declared. */
  public static Backend readingEverything(Policy policy) {
    return Backend.readingEverything(policy);
  }

  /** The policy that the backend has for these args, for all calls. */
  public static Backend withArgs(Backend backend, String args) {
    return answered(
        "GetInfo", () -> backend.withArgs(ByteString.copyFrom(args, StandardCharsets.UTF_8)));
  }

  /** The answer to the handshake. */
  public GetInfoResponse info() {
    return answered("GetInfo", () -> answer.info(GetInfoRequest.getDefaultInstance()));
  }

  /** The answer to Filter. */
  public FilterResponse filter(io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> nodes) {
    return (FilterResponse) ask(Kind.FILTER, pod, nodes);
  }

  /** The answer to Score. */
  public ScoreResponse score(io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> nodes) {
    return (ScoreResponse) ask(Kind.SCORE, pod, nodes);
  }

  /** The answer to Preempt. */
  public PreemptResponse preempt(
      io.extendergateway.policy.v1beta1.Pod pod,
      List<InCluster> nodes,
      List<Candidate> candidates) {
    return (PreemptResponse)
        answered(
            Kind.PREEMPT.method,
            () -> {
              var request = (PreemptRequest) asked(Kind.PREEMPT, pod, nodes);
              PreemptRequest.Builder all = request.toBuilder();
              Optional<Terms> terms = terms(Kind.PREEMPT);
              candidates.forEach(candidate -> all.addCandidates(sent(terms, candidate)));
              // For the texts of errors: a policy that has not declared names cannot read them.
              var rows = all.getNodesBuilder().getRowsBuilder();
              for (int at = 0; at < nodes.size(); at++) {
                rows.getRowsBuilder(at).setName(nodes.get(at).row.getName());
              }
              return answer.answer(Kind.PREEMPT, Asked.of(all.build()), Trace.NONE);
            });
  }

  /** The answer to Bind, which is waited for. */
  public BindResponse bind(BindRequest request) {
    return (BindResponse)
        answered(
            Kind.BIND.method,
            () -> {
              Optional<Terms> terms = terms(Kind.BIND);
              BindRequest.Builder sent = request.toBuilder().setCall(call(terms));
              if (request.hasPod()) {
                sent.setPod(sent(terms, request.getPod(), List.of()));
              }
              var bound = answer.answer(Kind.BIND, Asked.of(sent.build()), Trace.NONE);
              return ((CompletionStage<?>) bound).toCompletableFuture().get();
            });
  }

  /** The answer to Change before nodes are filtered, about the pod. */
  public PodChange beforeFilter(io.extendergateway.policy.v1beta1.Pod pod) {
    return changes(Kind.BEFORE_FILTER, pod, List.of()).pod();
  }

  /** The same about nodes. */
  public List<NodeChange> beforeFilterNodes(
      io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> nodes) {
    return changes(Kind.BEFORE_FILTER_NODES, pod, nodes).nodes();
  }

  /** The answer to Change before nodes are scored. */
  public Changes beforeScore(io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> nodes) {
    return changes(Kind.BEFORE_SCORE, pod, nodes);
  }

  /** The answer of a hook, which the gateway refuses if it changes more than the hook declares. */
  private Changes changes(
      Kind hook, io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> nodes) {
    var response = (ChangeResponse) ask(hook, pod, nodes);
    Changes changes =
        new Changes(
            new PodChange(response.getPod()), changes(response.getNodesList(), nodes.size()));
    Set<ChangedPart> undeclared = changes.pod().parts();
    changes.nodes().forEach(node -> undeclared.addAll(node.parts()));
    undeclared.removeAll(terms(hook).orElseThrow().changes);
    if (!undeclared.isEmpty()) {
      throw new NoAnswerException(
          "%s changes %s, which its Hook does not declare; add it to Hook.changes"
              .formatted(Failures.inSentence(hook.method), undeclared));
    }
    return changes;
  }

  private Object ask(Kind verb, io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> nodes) {
    return answered(
        verb.method, () -> answer.answer(verb, Asked.of(asked(verb, pod, nodes)), Trace.NONE));
  }

  /** The changes by node. */
  private static List<NodeChange> changes(
      List<io.extendergateway.policy.v1beta1.NodeChange> groups, int nodes) {
    List<NodeChange> changes = new ArrayList<>(Collections.nCopies(nodes, NodeChange.none()));
    for (var group : groups) {
      NodeChange change = new NodeChange(group.toBuilder().clearPositions().build());
      group.getPositionsList().forEach(position -> changes.set(position, change));
    }
    return List.copyOf(changes);
  }

  /** The answer to Introspect. */
  public IntrospectResponse introspect(IntrospectRequest request) {
    return answered("Introspect", () -> introspections.answer(request).toCompletableFuture().get());
  }

  /** Reports the outcomes. */
  public void observe(List<Outcome> all) {
    ReportRequest.Builder request = ReportRequest.newBuilder().setCall(call(Optional.empty()));
    all.forEach(outcome -> request.addOutcomes(outcome.message()));
    ReportResponse unused =
        answered(
            Outcomes.VERB,
            () -> Outcomes.answer(request.build(), Outcomes.observer(backend, NamedArgs.NONE)));
  }

  /** A verb that is not declared is not answered, whatever it is sent. */
  private Optional<Terms> terms(Kind verb) {
    return Optional.ofNullable(backend.policyFor(ByteString.EMPTY).declaration().terms(verb));
  }

  /**
   * A request with what those of all verbs and hooks have in common; one about the pod has no
   * nodes.
   */
  private Message asked(
      Kind verb, io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> nodes) {
    Optional<Terms> terms = terms(verb);
    Message.Builder request = verb.request.newBuilderForType();
    var fields = request.getDescriptorForType();
    request.setField(fields.findFieldByNumber(Questions.CALL), call(terms));
    request.setField(fields.findFieldByNumber(Questions.POD), sent(terms, pod, nodes));
    if (verb != Kind.BEFORE_FILTER) {
      request.setField(fields.findFieldByNumber(Questions.NODES), sent(terms, nodes));
    }
    if (request instanceof ChangeRequest.Builder change) {
      change.setHook(verb.message);
    }
    return request.build();
  }

  private static Call call(Optional<Terms> terms) {
    return Call.newBuilder()
        .setId("test")
        .setPurpose(Purpose.PURPOSE_DECIDE)
        .setGateway("rehearsal")
        .setBackend("rehearsal")
        .setReads(terms.map(declared -> declared.reads.sha256).orElse(ByteString.EMPTY))
        .build();
  }

  private static io.extendergateway.policy.v1beta1.Pod sent(
      Optional<Terms> terms, io.extendergateway.policy.v1beta1.Pod pod, List<InCluster> nodes) {
    return terms.map(declared -> Sent.pod(declared.reads.pod, pod, nodes)).orElse(pod);
  }

  private static Nodes sent(Optional<Terms> terms, List<InCluster> nodes) {
    NodeRows.Builder rows = NodeRows.newBuilder();
    for (InCluster node : nodes) {
      rows.addRows(terms.map(declared -> Sent.row(declared, node)).orElse(node.row));
    }
    return Nodes.newBuilder().setCount(nodes.size()).setRows(rows).build();
  }

  private static Candidate sent(Optional<Terms> terms, Candidate candidate) {
    Candidate.Builder sent = candidate.toBuilder();
    for (var victim : sent.getVictimsBuilderList()) {
      if (victim.hasPod()) {
        victim.setPod(sent(terms, victim.getPod(), List.of()).toBuilder().clearTopologyCounts());
      }
    }
    return sent.build();
  }

  private static <T> T answered(String method, Callable<T> call) {
    try {
      return call.call();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new NoAnswerException(Failures.testText(interrupted, method), interrupted);
    } catch (Exception | StackOverflowError | AssertionError failure) {
      throw new NoAnswerException(Failures.testText(failure, method), failure);
    }
  }
}
