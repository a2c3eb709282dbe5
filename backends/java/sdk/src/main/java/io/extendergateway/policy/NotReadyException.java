package io.extendergateway.policy;

/**
 * The policy cannot decide now, whichever pod it is asked about: one sentence for operators. The
 * call fails with UNAVAILABLE, and the policy is called again for the next pod.
 */
public class NotReadyException extends Exception {
  private static final long serialVersionUID = 1L;

  /** With this text. */
  public NotReadyException(String sentence) {
    super(sentence);
  }
}
