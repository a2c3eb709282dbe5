package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.ErrorReason;
import io.grpc.Status;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;

/** The policies for the latest args, by the digest of the args: calls name no more than that. */
final class ByArgs {
  private static final int MAX_POLICIES = 16;

  /**
   * The most bytes of args whose policies are kept. A policy built from them can be tens of times
   * as large.
   */
  private static final int MAX_ARGS_BYTES = 2 << 20;

  private final Function<ByteString, Versions> build;

  /** The least recently used first; guarded by itself. */
  private final Map<ByteString, Recent> recent = new LinkedHashMap<>(16, 0.75f, true);

  private static final class Recent {
    final Versions versions;
    final int argsBytes;

    /**
     * Args that are used once, as by a client that is not the gateway, must not displace those of
     * every call.
     */
    boolean repeated;

    Recent(Versions versions, int argsBytes) {
      this.versions = versions;
      this.argsBytes = argsBytes;
    }
  }

  /** The function is called for args that are not known. */
  ByArgs(Function<ByteString, Versions> build) {
    this.build = Objects.requireNonNull(build, "build");
  }

  /** The versions for these args, which must be sent if they are not known. */
  Versions of(NamedArgs named) {
    Versions known = find(named.sha256());
    if (known != null) {
      return known;
    }
    if (!named.areSent()) {
      throw CallException.of(
              Status.Code.FAILED_PRECONDITION,
              "the args of this call are not known here; send them")
          .because(ErrorReason.ERROR_REASON_ARGS_UNKNOWN);
    }
    Versions versions = build.apply(named.args());
    remember(named, versions);
    return versions;
  }

  /** The versions for all args that are kept. */
  List<Versions> all() {
    synchronized (recent) {
      return recent.values().stream().map(entry -> entry.versions).toList();
    }
  }

  private Versions find(ByteString sha256) {
    synchronized (recent) {
      Recent entry = recent.get(sha256);
      if (entry == null) {
        return null;
      }
      entry.repeated = true;
      return entry.versions;
    }
  }

  /** The digest is copied: a slice of the request would keep all of it in memory. */
  private void remember(NamedArgs named, Versions versions) {
    ByteString key = ByteString.copyFrom(named.sha256().toByteArray());
    int more = named.args().size();
    synchronized (recent) {
      while (!recent.isEmpty()
          && (recent.size() >= MAX_POLICIES || argsBytes() + more > MAX_ARGS_BYTES)) {
        evict();
      }
      recent.put(key, new Recent(versions, more));
    }
  }

  private void evict() {
    ByteString oldest = recent.keySet().iterator().next();
    recent.remove(
        recent.entrySet().stream()
            .filter(entry -> !entry.getValue().repeated)
            .findFirst()
            .map(Map.Entry::getKey)
            .orElse(oldest));
  }

  private int argsBytes() {
    return recent.values().stream().mapToInt(entry -> entry.argsBytes).sum();
  }
}
