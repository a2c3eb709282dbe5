package io.extendergateway.policy;

import io.extendergateway.policy.Declaration.Kind;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * What a policy is, and which data it needs. A verb that is not declared here is never called:
 *
 * <pre>{@code
 * Info.of("no-arm", "1.0.0").filters(Verb.perNode().pure().reads(reads));
 * Info.of("near", "1.0.0").scores(Verb.perNode().reads(reads), Scale.between(0, 10));
 * }</pre>
 *
 * <p>Immutable: each method returns a new value.
 */
public final class Info {
  final String name;
  final String version;
  String revision;
  String rejectedConfiguration = "";
  Scale scale;
  boolean keepsTable = true;
  boolean observesOutcomes;
  List<ShownPath> paths = List.of();

  /** What is served: a verb is a hook that changes nothing. */
  final Map<Kind, Hook> served = new EnumMap<>(Kind.class);

  private Info(String name, String version) {
    this.name = name;
    this.version = version;
  }

  /** A changed copy: only the change writes to it. */
  private Info with(Consumer<Info> change) {
    Info copy = new Info(name, version);
    copy.revision = revision;
    copy.rejectedConfiguration = rejectedConfiguration;
    copy.scale = scale;
    copy.served.putAll(served);
    copy.keepsTable = keepsTable;
    copy.observesOutcomes = observesOutcomes;
    copy.paths = paths;
    change.accept(copy);
    return copy;
  }

  private Info with(Kind kind, Verb verb) {
    return with(kind, Hook.unchanging(Objects.requireNonNull(verb, "verb")));
  }

  private Info with(Kind kind, Hook hook) {
    return with(copy -> copy.served.put(kind, Objects.requireNonNull(hook, "hook")));
  }

  /**
   * A policy that serves nothing yet, of a name such as "label-rules" (1 to 63 bytes) and a version
   * of the program (1 to 64 bytes).
   */
  public static Info of(String name, String version) {
    return new Info(
        Objects.requireNonNull(name, "name"), Objects.requireNonNull(version, "version"));
  }

  /**
   * Names everything that the answers depend on besides the request: code and rule files, not the
   * operator's args. At most 64 bytes. Default: the version and a digest of the jar or folder of
   * the policy's class, which is right for a policy that reads nothing else.
   */
  public Info revision(String text) {
    return with(copy -> copy.revision = Objects.requireNonNull(text, "revision"));
  }

  /**
   * Says why a configuration of the policy's own, such as a changed rule file, is not used, in one
   * line for operators: the gateway's {@code status} shows it. At most 1,024 bytes are sent.
   */
  public Info rejectedConfiguration(String why) {
    return with(copy -> copy.rejectedConfiguration = Objects.requireNonNull(why, "why"));
  }

  /** The policy rejects nodes. */
  public Info filters(Verb verb) {
    return with(Kind.FILTER, verb);
  }

  /** The policy scores nodes. */
  public Info scores(Verb verb, Scale on) {
    return with(copy -> copy.scale = Objects.requireNonNull(on, "scale")).with(Kind.SCORE, verb);
  }

  /**
   * The policy decides which pods may be evicted to make room. Not a {@linkplain Verb#pure pure}
   * verb: its answer depends on the victims, too. A policy that looks at pods alone reads nothing
   * of nodes, or their names: it is also asked about nodes that the gateway does not know.
   */
  public Info preempts(Verb verb) {
    return with(Kind.PREEMPT, verb);
  }

  /**
   * The policy binds pods, with {@link Policy#bind} or {@link Policy#bindAsync}, and reads nothing
   * of them but what {@link BindAsk} has in any case: namespace, name, UID and node.
   */
  public Info binds() {
    return binds(new Reads());
  }

  /** The policy binds pods and reads this of them, too. Nothing can be read of nodes. */
  public Info binds(Reads reads) {
    return with(Kind.BIND, Verb.perNode().reads(reads));
  }

  /**
   * The policy changes the pod before nodes are filtered for it. The changes are for one call of
   * kube-scheduler and the backends that are asked in it: kube-scheduler does not see them. The
   * operator's configuration says in which order the hooks of several backends are called.
   */
  public Info beforeFilter(Hook hook) {
    return with(Kind.BEFORE_FILTER, hook);
  }

  /**
   * The policy changes nodes before they are filtered, after {@link #beforeFilter} of all backends.
   */
  public Info beforeFilterNodes(Hook hook) {
    return with(Kind.BEFORE_FILTER_NODES, hook);
  }

  /**
   * The policy changes the pod and nodes before the nodes are scored. It is told about them as
   * kube-scheduler sent them: nothing is left of the changes for filter.
   */
  public Info beforeScore(Hook hook) {
    return with(Kind.BEFORE_SCORE, hook);
  }

  /**
   * Nodes come with each call in full. Without this, a policy that reads more of them than names
   * holds them and receives only changes.
   */
  public Info withoutNodeTable() {
    return with(copy -> copy.keepsTable = false);
  }

  /**
   * The policy is told by {@link Policy#observe} how attempts to place pods ended, such as to undo
   * what a verb with {@linkplain Verb#sideEffects side effects} has reserved.
   */
  public Info observesOutcomes() {
    return with(copy -> copy.observesOutcomes = true);
  }

  /**
   * Shows a part of the policy's state to people, as JSON: the gateway serves the path below {@code
   * /apis/v1/plugins/BACKEND} of its admin address. May be called several times, for at most 64
   * paths. Where two paths match, the one counts whose first differing segment is not a parameter.
   *
   * <pre>{@code
   * .shows("/quotas/:namespace", "The quota of a namespace", ask -> quota(ask.parameter("namespace")))
   * }</pre>
   *
   * @param path segments of letters, digits and {@code -._~}, or parameters such as {@code :name},
   *     each after a slash; at most 256 bytes
   * @param description what it shows, for people, in one line; at most 256 bytes, may be ""
   */
  public Info shows(String path, String description, Introspection introspection) {
    ShownPath shown = new ShownPath(path, description, introspection);
    return with(copy -> copy.paths = Stream.concat(paths.stream(), Stream.of(shown)).toList());
  }

  /** The same, reading all that may be declared. */
  Info readingEverything() {
    return with(copy -> copy.served.replaceAll((kind, hook) -> hook.readingEverything()));
  }
}
