package io.extendergateway.policy.testing;

/** A policy gave no answer, or a forbidden one: the message is what the gateway would log. */
public final class NoAnswerException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With what the policy API forbids. */
  public NoAnswerException(String forbidden) {
    super(forbidden);
  }

  /** With the text of a failed call and what the policy threw. */
  public NoAnswerException(String text, Throwable cause) {
    super(text, cause);
  }
}
