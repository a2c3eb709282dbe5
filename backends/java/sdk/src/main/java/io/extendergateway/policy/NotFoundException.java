package io.extendergateway.policy;

/**
 * An {@link Introspection} has no such object: one sentence for people. The call fails with
 * NOT_FOUND, and the gateway responds with 404.
 */
public class NotFoundException extends Exception {
  private static final long serialVersionUID = 1L;

  /** With this text, which names what does not exist. */
  public NotFoundException(String sentence) {
    super(sentence);
  }
}
