package io.extendergateway.policy;

/**
 * A parameter or the query of an {@link IntrospectAsk} is invalid. The call fails with
 * INVALID_ARGUMENT, and the gateway responds with 400. The text reaches the one who asked, so it
 * names the parameter and what is expected: {@code limit is "x"; expected 1 to 1000}.
 */
public class InvalidParameterException extends Exception {
  private static final long serialVersionUID = 1L;

  /** With this text. */
  public InvalidParameterException(String sentence) {
    super(sentence);
  }
}
