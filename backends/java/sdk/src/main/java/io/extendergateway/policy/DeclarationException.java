package io.extendergateway.policy;

import java.util.List;

/** All mistakes of an {@link Info}, one sentence each. */
public final class DeclarationException extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;

  private final transient List<String> mistakes;

  DeclarationException(List<String> mistakes) {
    super("invalid policy info: " + String.join("; ", mistakes));
    this.mistakes = List.copyOf(mistakes);
  }

  /** One sentence for each mistake. */
  public List<String> mistakes() {
    return mistakes;
  }
}
