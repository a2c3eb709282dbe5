package io.extendergateway.policy;

/**
 * Arguments are rejected: the call fails with INVALID_ARGUMENT. The text reaches the operator, so
 * it names the field and what is expected: {@code args.most: is 0; expected 1 to 1000}.
 */
public final class ArgsException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** With this sentence: the mistake and what is expected. */
  public ArgsException(String sentence) {
    super(sentence, null, false, false);
  }
}
