package io.extendergateway.policy;

import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.v1alpha1.BeforeFilterNodesRequest;
import io.extendergateway.policy.v1alpha1.BeforeFilterNodesResponse;
import io.extendergateway.policy.v1alpha1.BeforeFilterRequest;
import io.extendergateway.policy.v1alpha1.BeforeFilterResponse;
import io.extendergateway.policy.v1alpha1.BeforeScoreRequest;
import io.extendergateway.policy.v1alpha1.BeforeScoreResponse;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * From a request of HookService to an answer, without sockets. Everything that is thrown here
 * becomes a status by {@link Failures}.
 */
final class Hooks {
  private static final String BEFORE_FILTER_NODES = "beforeFilterNodes";
  private static final String BEFORE_SCORE = "beforeScore";

  private final Questions questions;

  Hooks(Questions questions) {
    this.questions = questions;
  }

  /** What changes about the pod before it is filtered for. */
  BeforeFilterResponse beforeFilter(BeforeFilterRequest request, Trace trace)
      throws NotReadyException {
    Question question = questions.aboutPod(Kind.BEFORE_FILTER, request, trace);
    Policy policy = question.policy();
    policy.ready();
    PodChange change = policy.beforeFilter(question.pod());
    BeforeFilterResponse.Builder response = BeforeFilterResponse.newBuilder();
    if (changesPod(change)) {
      response.setPod(sent(change));
    }
    // The pod is what is evaluated.
    return response.setResult(question.done(1, trace)).build();
  }

  /** What changes about nodes before they are filtered. */
  BeforeFilterNodesResponse beforeFilterNodes(BeforeFilterNodesRequest request, Trace trace)
      throws NotReadyException {
    Question question = questions.aboutNodes(Kind.BEFORE_FILTER_NODES, request, trace);
    if (question.miss() != null) {
      return BeforeFilterNodesResponse.newBuilder().setResult(question.missed(trace)).build();
    }
    Policy policy = question.policy();
    policy.ready();
    List<NodeChange> changes = policy.beforeFilterNodes(question.pod(), question.nodes());
    question.counted(BEFORE_FILTER_NODES, changes == null ? 0 : changes.size());
    BeforeFilterNodesResponse.Builder response = BeforeFilterNodesResponse.newBuilder();
    grouped(changes).forEach(response::addNodes);
    return response.setResult(question.done(trace)).build();
  }

  /** What changes about the pod and nodes before they are scored. */
  BeforeScoreResponse beforeScore(BeforeScoreRequest request, Trace trace)
      throws NotReadyException {
    Question question = questions.aboutNodes(Kind.BEFORE_SCORE, request, trace);
    if (question.miss() != null) {
      return BeforeScoreResponse.newBuilder().setResult(question.missed(trace)).build();
    }
    Policy policy = question.policy();
    policy.ready();
    Changes changes = policy.beforeScore(question.pod(), question.nodes());
    CallException.returned(changes, "beforeScore returned null");
    question.counted(BEFORE_SCORE, changes.nodes() == null ? 0 : changes.nodes().size());
    BeforeScoreResponse.Builder response = BeforeScoreResponse.newBuilder();
    if (changesPod(changes.pod())) {
      response.setPod(sent(changes.pod()));
    }
    grouped(changes.nodes()).forEach(response::addNodes);
    return response.setResult(question.done(trace)).build();
  }

  private static boolean changesPod(PodChange change) {
    CallException.returned(change, "a change of the pod is null");
    return !change.parts().isEmpty();
  }

  private static io.extendergateway.policy.v1alpha1.PodChange sent(PodChange change) {
    var message = change.message;
    return message.toBuilder()
        .setReason(Utf8.cut(message.getReason(), Limits.CHANGE_REASON_BYTES))
        .build();
  }

  /** The nodes that change, by what changes, in the order of their first occurrence. */
  private static Collection<io.extendergateway.policy.v1alpha1.NodeChange.Builder> grouped(
      List<NodeChange> changes) {
    Map<NodeChange, io.extendergateway.policy.v1alpha1.NodeChange.Builder> groups =
        new LinkedHashMap<>();
    int position = 0;
    for (NodeChange change : changes) {
      CallException.returned(change, "a change of a node is null");
      if (!change.parts().isEmpty()) {
        groups.computeIfAbsent(change, Hooks::begun).addPositions(position);
      }
      position++;
    }
    return groups.values();
  }

  private static io.extendergateway.policy.v1alpha1.NodeChange.Builder begun(NodeChange change) {
    var message = change.message;
    return message.toBuilder().setReason(Utf8.cut(message.getReason(), Limits.CHANGE_REASON_BYTES));
  }
}
