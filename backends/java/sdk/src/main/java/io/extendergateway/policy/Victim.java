package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.Call;
import java.util.Optional;

/** A pod that would be evicted. */
public final class Victim {
  private final io.extendergateway.policy.v1beta1.Victim message;
  private final Access access;
  private final Call call;

  Victim(io.extendergateway.policy.v1beta1.Victim message, Access access, Call call) {
    this.message = message;
    this.access = access;
    this.call = call;
  }

  /** metadata.uid. */
  public String uid() {
    return message.getUid();
  }

  /**
   * The pod. Empty if only its UID is known: kube-scheduler sends no more with {@code
   * nodeCacheCapable: true}, and the gateway watches no pods, or has not seen this one yet.
   */
  public Optional<Pod> pod() {
    boolean known = message.hasPod() && message.getPod().hasFacts();
    return known ? Optional.of(new Pod(message.getPod(), access, call)) : Optional.empty();
  }
}
