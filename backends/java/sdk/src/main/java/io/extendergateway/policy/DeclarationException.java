package io.extendergateway.policy;

/**
 * An {@link Info} that declares no verb, about which no gateway can ask. Other mistakes are named
 * by the gateway, and by policy-conformance.
 */
public final class DeclarationException extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;

  DeclarationException() {
    super(
        "invalid policy info: no verb is declared; call Info.filters, Info.scores, Info.preempts or Info.binds, or declare a hook");
  }
}
