package io.extendergateway.policy;

/** A wrong command line: names the option and what is expected. The exit status is 2. */
public final class UsageException extends Exception {
  private static final long serialVersionUID = 1L;

  /** With this sentence, which names the option and what is expected. */
  public UsageException(String sentence) {
    super(sentence);
  }
}
