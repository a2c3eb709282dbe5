package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.BindRequest;
import java.util.Optional;

/** Which pod is to be bound to which node. */
public final class BindAsk {
  private final BindRequest request;
  private final Pod pod;

  BindAsk(BindRequest request, Pod pod) {
    this.request = request;
    this.pod = pod;
  }

  /** metadata.namespace of the pod. */
  public String namespace() {
    return request.getNamespace();
  }

  /** metadata.name of the pod. */
  public String name() {
    return request.getName();
  }

  /**
   * metadata.uid of the pod. A pod of that name with another UID must not be bound: put the UID
   * into the Binding's metadata, and the apiserver checks it.
   */
  public String uid() {
    return request.getUid();
  }

  /** Name of the node. */
  public String node() {
    return request.getNode();
  }

  /** The id of the call, as {@link Pod#callId}. */
  public String callId() {
    return request.getCall().getId();
  }

  /** The same logger, whose lines begin with the call and the pod, as {@link Pod#logger}. */
  public System.Logger logger(System.Logger logger) {
    return new PodLogger(logger, subject());
  }

  String subject() {
    return PodLogger.subject(callId(), PodLogger.pod(namespace(), name()));
  }

  /** The pod; empty if the gateway knows only its name. */
  public Optional<Pod> pod() {
    return Optional.ofNullable(pod);
  }
}
