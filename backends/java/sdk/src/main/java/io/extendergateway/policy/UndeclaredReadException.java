package io.extendergateway.policy;

/**
 * A policy read something that its verb does not declare with {@link Verb#reads}, or the id of the
 * call in a {@linkplain Verb#pure pure} verb. A mistake in the policy's code, which ends its call:
 * any value would look like that of an object without the label.
 */
public final class UndeclaredReadException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  UndeclaredReadException(String sentence) {
    super(sentence);
  }

  UndeclaredReadException(String what, String right) {
    this(what + " is read and not declared; declare it with Reads." + right);
  }
}
