package io.extendergateway.policy;

import com.google.protobuf.Message;
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
  private static final String BEFORE_FILTER = "beforeFilter";
  private static final String BEFORE_FILTER_NODES = "beforeFilterNodes";
  private static final String BEFORE_SCORE = "beforeScore";

  private static final int MAX_REASON_BYTES = 200;

  /** The largest answer about the pod, and the largest about nodes, which grows with them. */
  private static final int MAX_POD_BYTES = 128 << 10;

  private static final int MAX_BYTES = 64 << 10;
  private static final int MAX_BYTES_PER_NODE = 1 << 10;

  private final Questions questions;

  Hooks(Questions questions) {
    this.questions = questions;
  }

  /** What changes about the pod before it is filtered for. */
  BeforeFilterResponse beforeFilter(BeforeFilterRequest request, Trace trace)
      throws NotReadyException {
    Question question =
        questions.aboutPod(
            Kind.BEFORE_FILTER,
            request.hasCall() ? request.getCall() : null,
            request.hasPod() ? request.getPod() : null,
            trace);
    Policy policy = question.policy();
    policy.ready();
    PodChange change = policy.beforeFilter(question.pod());
    BeforeFilterResponse.Builder response = BeforeFilterResponse.newBuilder();
    if (changesPod(change, check(BEFORE_FILTER, question))) {
      response.setPod(sent(change));
    }
    // The pod is what is evaluated.
    return limited(
        BEFORE_FILTER, MAX_POD_BYTES, response.setResult(question.done(1, trace)).build());
  }

  /** What changes about nodes before they are filtered. */
  BeforeFilterNodesResponse beforeFilterNodes(BeforeFilterNodesRequest request, Trace trace)
      throws NotReadyException {
    Question question =
        questions.aboutNodes(
            Kind.BEFORE_FILTER_NODES,
            request.hasCall() ? request.getCall() : null,
            request.hasPod() ? request.getPod() : null,
            request.hasNodes() ? request.getNodes() : null,
            trace);
    if (question.miss() != null) {
      return BeforeFilterNodesResponse.newBuilder().setResult(question.missed(trace)).build();
    }
    Policy policy = question.policy();
    policy.ready();
    List<NodeChange> changes = policy.beforeFilterNodes(question.pod(), question.nodes());
    question.counted(BEFORE_FILTER_NODES, changes == null ? 0 : changes.size());
    BeforeFilterNodesResponse.Builder response = BeforeFilterNodesResponse.newBuilder();
    grouped(changes, check(BEFORE_FILTER_NODES, question)).forEach(response::addNodes);
    response.setResult(question.done(trace));
    return limited(BEFORE_FILTER_NODES, most(question), response.build());
  }

  /** What changes about the pod and nodes before they are scored. */
  BeforeScoreResponse beforeScore(BeforeScoreRequest request, Trace trace)
      throws NotReadyException {
    Question question =
        questions.aboutNodes(
            Kind.BEFORE_SCORE,
            request.hasCall() ? request.getCall() : null,
            request.hasPod() ? request.getPod() : null,
            request.hasNodes() ? request.getNodes() : null,
            trace);
    if (question.miss() != null) {
      return BeforeScoreResponse.newBuilder().setResult(question.missed(trace)).build();
    }
    Policy policy = question.policy();
    policy.ready();
    Changes changes = policy.beforeScore(question.pod(), question.nodes());
    CallException.returned(changes, "beforeScore returned null");
    question.counted(BEFORE_SCORE, changes.nodes() == null ? 0 : changes.nodes().size());
    ChangeCheck check = check(BEFORE_SCORE, question);
    BeforeScoreResponse.Builder response = BeforeScoreResponse.newBuilder();
    if (changesPod(changes.pod(), check)) {
      response.setPod(sent(changes.pod()));
    }
    grouped(changes.nodes(), check).forEach(response::addNodes);
    response.setResult(question.done(trace));
    return limited(BEFORE_SCORE, most(question), response.build());
  }

  private static ChangeCheck check(String method, Question question) {
    return new ChangeCheck(method, question.terms().changes, question.nodes().size());
  }

  private static boolean changesPod(PodChange change, ChangeCheck check) {
    CallException.returned(change, "a change of the pod is null");
    check.pod(change);
    return !change.parts().isEmpty();
  }

  private static io.extendergateway.policy.v1alpha1.PodChange sent(PodChange change) {
    var message = change.message;
    return message.toBuilder().setReason(Utf8.cut(message.getReason(), MAX_REASON_BYTES)).build();
  }

  /** The nodes that change, by what changes, in the order of their first occurrence. */
  private static Collection<io.extendergateway.policy.v1alpha1.NodeChange.Builder> grouped(
      List<NodeChange> changes, ChangeCheck check) {
    Map<NodeChange, io.extendergateway.policy.v1alpha1.NodeChange.Builder> groups =
        new LinkedHashMap<>();
    int position = 0;
    for (NodeChange change : changes) {
      CallException.returned(change, "a change of a node is null");
      if (!change.parts().isEmpty()) {
        groups.computeIfAbsent(change, added -> begun(added, check)).addPositions(position);
      }
      position++;
    }
    return groups.values();
  }

  private static io.extendergateway.policy.v1alpha1.NodeChange.Builder begun(
      NodeChange change, ChangeCheck check) {
    check.node(change);
    var message = change.message;
    return message.toBuilder().setReason(Utf8.cut(message.getReason(), MAX_REASON_BYTES));
  }

  private static long most(Question question) {
    return MAX_BYTES + (long) MAX_BYTES_PER_NODE * question.nodes().size();
  }

  private static <M extends Message> M limited(String method, long most, M response) {
    int bytes = response.getSerializedSize();
    if (bytes > most) {
      throw CallException.internal(
          "the changes that %s returned have %d bytes; expected at most %d, return fewer and equal ones",
          method, bytes, most);
    }
    return response;
  }
}
