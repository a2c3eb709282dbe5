package io.extendergateway.policy;

/** A backend cannot start: one sentence for operators that names the cause and a remedy. */
public final class ServeException extends Exception {
  private static final long serialVersionUID = 1L;

  ServeException(String sentence, Throwable cause) {
    super(sentence, cause);
  }
}
