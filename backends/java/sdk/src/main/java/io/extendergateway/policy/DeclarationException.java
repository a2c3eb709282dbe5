package io.extendergateway.policy;

/**
 * An {@link Info} that declares no verb, about which no gateway can ask, or one for which the
 * policy has no method, or a {@link Scale} without scores. Other mistakes are named by the gateway,
 * and by policy-conformance.
 */
public final class DeclarationException extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;

  DeclarationException(String mistake) {
    super("invalid policy info: " + mistake);
  }
}
