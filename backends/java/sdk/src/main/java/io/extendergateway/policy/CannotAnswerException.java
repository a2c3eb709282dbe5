package io.extendergateway.policy;

/**
 * The policy cannot answer about this pod, although it can about others: one sentence for
 * operators. Any method about a pod may throw it. The call fails with ABORTED, which says nothing
 * about the calls about other pods, however long it took.
 */
public class CannotAnswerException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With this text. */
  public CannotAnswerException(String sentence) {
    super(sentence);
  }
}
