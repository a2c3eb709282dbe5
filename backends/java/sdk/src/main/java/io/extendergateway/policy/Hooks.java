package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.ChangeResponse;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The answers of hooks: what their policies change. */
final class Hooks {
  private Hooks() {}

  /** What changes about the pod before it is filtered for. */
  static ChangeResponse.Builder beforeFilter(Question question) {
    PodChange change = question.policy().beforeFilter(question.pod());
    ChangeResponse.Builder response = ChangeResponse.newBuilder();
    return changesPod(change) ? response.setPod(sent(change)) : response;
  }

  /** What changes about nodes before they are filtered. */
  static ChangeResponse.Builder beforeFilterNodes(Question question) {
    List<NodeChange> changes =
        question.policy().beforeFilterNodes(question.pod(), question.nodes());
    ChangeResponse.Builder response = ChangeResponse.newBuilder();
    grouped(question.counted("beforeFilterNodes", changes)).forEach(response::addNodes);
    return response;
  }

  /** What changes about the pod and nodes before they are scored. */
  static ChangeResponse.Builder beforeScore(Question question) {
    Changes changes = question.policy().beforeScore(question.pod(), question.nodes());
    CallException.returned(changes, "beforeScore returned null");
    List<NodeChange> nodes = question.counted("beforeScore", changes.nodes());
    ChangeResponse.Builder response = ChangeResponse.newBuilder();
    if (changesPod(changes.pod())) {
      response.setPod(sent(changes.pod()));
    }
    grouped(nodes).forEach(response::addNodes);
    return response;
  }

  private static boolean changesPod(PodChange change) {
    CallException.returned(change, "a change of the pod is null");
    return !change.parts().isEmpty();
  }

  private static io.extendergateway.policy.v1beta1.PodChange sent(PodChange change) {
    var message = change.message;
    return message.toBuilder()
        .setReason(Utf8.cut(message.getReason(), Limits.CHANGE_REASON_BYTES))
        .build();
  }

  /** The nodes that change, by what changes, in the order of their first occurrence. */
  private static Collection<io.extendergateway.policy.v1beta1.NodeChange.Builder> grouped(
      List<NodeChange> changes) {
    Map<NodeChange, io.extendergateway.policy.v1beta1.NodeChange.Builder> groups =
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

  private static io.extendergateway.policy.v1beta1.NodeChange.Builder begun(NodeChange change) {
    var message = change.message;
    return message.toBuilder().setReason(Utf8.cut(message.getReason(), Limits.CHANGE_REASON_BYTES));
  }
}
