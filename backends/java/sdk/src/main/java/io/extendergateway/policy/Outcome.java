package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.OutcomeKind;
import java.util.Optional;

/**
 * How an attempt to place a pod ended, for {@link Policy#observe}.
 *
 * @param call the id of the latest call about the pod with which the gateway has asked this backend
 *     to filter or to bind: {@link Pod#callId} or {@link BindAsk#callId}, and that of the gateway's
 *     traces and its decision log
 * @param namespace metadata.namespace of the pod
 * @param name metadata.name of the pod
 * @param uid metadata.uid of the pod
 * @param kind what has become of the attempt
 * @param node the node of a pod that is {@linkplain Kind#BOUND bound}, whichever backend or
 *     scheduler chose it; otherwise empty
 */
public record Outcome(
    String call, String namespace, String name, String uid, Kind kind, Optional<String> node) {
  /** How an attempt ends. */
  public enum Kind {
    /** The pod is bound to the node. */
    BOUND(OutcomeKind.OUTCOME_KIND_BOUND),
    /** The pod is not bound, and certainly will not be by this attempt. */
    NOT_BOUND(OutcomeKind.OUTCOME_KIND_NOT_BOUND),
    /**
     * Another attempt has begun before the end of this one was known; the outcome of that one
     * follows. Also what a later version of the gateway knows and this one does not.
     */
    SUPERSEDED(OutcomeKind.OUTCOME_KIND_SUPERSEDED),
    /** The pod does not exist any more, or has ended, whether it was bound or not. */
    DELETED(OutcomeKind.OUTCOME_KIND_DELETED);

    private final OutcomeKind message;

    Kind(OutcomeKind message) {
      this.message = message;
    }

    private static Kind of(OutcomeKind message) {
      for (Kind kind : values()) {
        if (kind.message == message) {
          return kind;
        }
      }
      return SUPERSEDED;
    }
  }

  static Outcome of(io.extendergateway.policy.v1beta1.Outcome message) {
    Kind kind = Kind.of(message.getKind());
    return new Outcome(
        message.getCall(),
        message.getNamespace(),
        message.getName(),
        message.getUid(),
        kind,
        kind == Kind.BOUND ? Optional.of(message.getNode()) : Optional.empty());
  }

  io.extendergateway.policy.v1beta1.Outcome message() {
    return io.extendergateway.policy.v1beta1.Outcome.newBuilder()
        .setCall(call)
        .setNamespace(namespace)
        .setName(name)
        .setUid(uid)
        .setKind(kind.message)
        .setNode(node.orElse(""))
        .build();
  }
}
