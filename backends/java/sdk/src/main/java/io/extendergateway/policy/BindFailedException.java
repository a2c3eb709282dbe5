package io.extendergateway.policy;

/**
 * A pod could not be bound: one sentence for operators. The call fails with UNAVAILABLE. The
 * gateway finds out whether the pod was bound nevertheless, and otherwise applies the failure
 * policy that the operator chose.
 */
public class BindFailedException extends Exception {
  private static final long serialVersionUID = 1L;

  /** With this text. */
  public BindFailedException(String sentence) {
    super(sentence);
  }

  /** With this text and the cause, which is not sent. */
  public BindFailedException(String sentence, Throwable cause) {
    super(sentence, cause);
  }
}
