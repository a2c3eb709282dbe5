package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.Backend.Prepared;
import io.extendergateway.policy.Declaration.Kind;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;

/**
 * The versions of a policy that changes while running. A request is encoded with one declaration,
 * and can be read with no other.
 */
final class Versions {
  /** Gateways repeat the handshake within a second, so there is rarely more than one in use. */
  private static final int MAX_EARLIER = 16;

  private final UnaryOperator<Info> declared;

  /** The latest one first. No two of them declare the same. */
  private volatile List<Prepared> all = List.of();

  Versions(Policy first, UnaryOperator<Info> declared) {
    this.declared = declared;
    replace(first);
  }

  static Versions of(Policy first) {
    return new Versions(first, info -> info);
  }

  /** The latest one so far. */
  Prepared newest() {
    return all.get(0);
  }

  /** The one that answers from now on, which {@link Policy#current} may name. */
  @SuppressWarnings("ReferenceEquality")
  Prepared latest() {
    Prepared asked = newest();
    Policy current = asked.policy().current();
    if (current == asked.policy()) {
      return asked;
    }
    Prepared newer = Prepared.of(current, declared);
    synchronized (this) {
      // Unless another call has replaced it meanwhile.
      if (newest() == asked) {
        add(newer);
      }
      return newest();
    }
  }

  /** From now on this policy answers. */
  void replace(Policy policy) {
    Prepared newer = Prepared.of(policy, declared);
    synchronized (this) {
      add(newer);
    }
  }

  /** The latest one that declares this about the verb. */
  Optional<Prepared> declaring(Kind verb, ByteString reads) {
    return all.stream()
        .filter(version -> reads.equals(version.declaration().readsSha256(verb)))
        .findFirst();
  }

  /** An earlier version that declares the same is never needed again. */
  private void add(Prepared latest) {
    List<Prepared> versions = new ArrayList<>(List.of(latest));
    all.stream()
        .filter(version -> !version.declaration().readsAs(latest.declaration()))
        .limit(MAX_EARLIER)
        .forEach(versions::add);
    all = List.copyOf(versions);
  }
}
