package io.extendergateway.policy;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * What a policy is, and which data it needs. A verb that is not declared here is never called:
 *
 * <pre>{@code
 * Info.of("no-arm", "1.0.0").filters(Verb.perNode().pure());
 * Info.of("near", "1.0.0").scores(Verb.perNode(), Scale.between(0, 10));
 * }</pre>
 *
 * <p>Immutable: each method returns a new value.
 */
public final class Info {
  final String name;
  final String version;
  final String revision;
  final String rejectedConfiguration;
  final Verb filter;
  final Verb score;
  final Scale scale;
  final Verb preempt;
  final Verb bind;
  final Hook beforeFilter;
  final Hook beforeFilterNodes;
  final Hook beforeScore;
  final List<String> annotations;
  final boolean wantsRawPod;
  final boolean keepsTable;
  final List<ShownPath> paths;

  private Info(Builder from) {
    name = from.name;
    version = from.version;
    revision = from.revision;
    rejectedConfiguration = from.rejectedConfiguration;
    filter = from.filter;
    score = from.score;
    scale = from.scale;
    preempt = from.preempt;
    bind = from.bind;
    beforeFilter = from.beforeFilter;
    beforeFilterNodes = from.beforeFilterNodes;
    beforeScore = from.beforeScore;
    annotations = List.copyOf(from.annotations);
    wantsRawPod = from.wantsRawPod;
    keepsTable = from.keepsTable;
    paths = List.copyOf(from.paths);
  }

  /** The fields while they change. */
  private static final class Builder {
    private String name = "";
    private String version = "";
    private String revision;
    private String rejectedConfiguration = "";
    private Verb filter;
    private Verb score;
    private Scale scale;
    private Verb preempt;
    private Verb bind;
    private Hook beforeFilter;
    private Hook beforeFilterNodes;
    private Hook beforeScore;
    private List<String> annotations = new ArrayList<>();
    private boolean wantsRawPod;
    private boolean keepsTable = true;
    private List<ShownPath> paths = new ArrayList<>();
  }

  private Builder change() {
    Builder builder = new Builder();
    builder.name = name;
    builder.version = version;
    builder.revision = revision;
    builder.rejectedConfiguration = rejectedConfiguration;
    builder.filter = filter;
    builder.score = score;
    builder.scale = scale;
    builder.preempt = preempt;
    builder.bind = bind;
    builder.beforeFilter = beforeFilter;
    builder.beforeFilterNodes = beforeFilterNodes;
    builder.beforeScore = beforeScore;
    builder.annotations = new ArrayList<>(annotations);
    builder.wantsRawPod = wantsRawPod;
    builder.keepsTable = keepsTable;
    builder.paths = new ArrayList<>(paths);
    return builder;
  }

  /**
   * A policy that serves nothing yet.
   *
   * @param name what the policy calls itself, such as "label-rules": 1 to 63 bytes
   * @param version the version of the program: 1 to 64 bytes
   */
  public static Info of(String name, String version) {
    Builder builder = new Builder();
    builder.name = Objects.requireNonNull(name, "name");
    builder.version = Objects.requireNonNull(version, "version");
    return new Info(builder);
  }

  /**
   * Names everything that the answers depend on besides the request: code and rule files, not the
   * operator's args. At most 64 bytes. Default: the version, which is right for a policy that reads
   * nothing else.
   */
  public Info revision(String text) {
    Builder builder = change();
    builder.revision = Objects.requireNonNull(text, "revision");
    return new Info(builder);
  }

  /**
   * Says why a configuration of the policy's own, such as a changed rule file, is not used, in one
   * line for operators: the gateway's {@code status} shows it. At most 1,024 bytes are sent.
   */
  public Info rejectedConfiguration(String why) {
    Builder builder = change();
    builder.rejectedConfiguration = Objects.requireNonNull(why, "why");
    return new Info(builder);
  }

  /**
   * The policy rejects nodes.
   *
   * @param verb how it is called
   * @return the info with the verb
   */
  public Info filters(Verb verb) {
    Builder builder = change();
    builder.filter = Objects.requireNonNull(verb, "verb");
    return new Info(builder);
  }

  /**
   * The policy scores nodes.
   *
   * @param verb how it is called
   * @param on the scale of its scores
   * @return the info with the verb
   */
  public Info scores(Verb verb, Scale on) {
    Builder builder = change();
    builder.score = Objects.requireNonNull(verb, "verb");
    builder.scale = Objects.requireNonNull(on, "scale");
    return new Info(builder);
  }

  /**
   * The policy decides which pods may be evicted to make room. Not a {@linkplain Verb#pure pure}
   * verb: its answer depends on the victims, too. Nodes come with facts only if the gateway watches
   * them; {@link View#NAME} is enough for a policy that looks at pods.
   *
   * @param verb how it is called
   * @return the info with the verb
   */
  public Info preempts(Verb verb) {
    Builder builder = change();
    builder.preempt = Objects.requireNonNull(verb, "verb");
    return new Info(builder);
  }

  /**
   * The policy binds pods, with {@link Policy#bind} or {@link Policy#bindAsync}.
   *
   * @return the info with the verb
   */
  public Info binds() {
    Builder builder = change();
    builder.bind = Verb.bind();
    return new Info(builder);
  }

  /**
   * The policy binds pods and reads this of them, besides namespace, name, UID and node, which
   * {@link BindAsk} has in any case. Nothing is read of nodes.
   *
   * @return the info with the verb
   */
  public Info binds(Reads reads) {
    Builder builder = change();
    builder.bind = Verb.bind().reads(reads);
    return new Info(builder);
  }

  /**
   * The policy changes the pod before nodes are filtered for it. The changes are for one call of
   * kube-scheduler and the backends that are asked in it: kube-scheduler does not see them. The
   * operator's configuration says in which order the hooks of several backends are called.
   *
   * @param hook what it changes, parts of the pod, and how it is called
   * @return the info with the hook
   */
  public Info beforeFilter(Hook hook) {
    Builder builder = change();
    builder.beforeFilter = Objects.requireNonNull(hook, "hook");
    return new Info(builder);
  }

  /**
   * The policy changes nodes before they are filtered, after {@link #beforeFilter} of all backends.
   *
   * @param hook what it changes, parts of nodes, and how it is called
   * @return the info with the hook
   */
  public Info beforeFilterNodes(Hook hook) {
    Builder builder = change();
    builder.beforeFilterNodes = Objects.requireNonNull(hook, "hook");
    return new Info(builder);
  }

  /**
   * The policy changes the pod and nodes before the nodes are scored. It is told about them as
   * kube-scheduler sent them: nothing is left of the changes for filter.
   *
   * @param hook what it changes, and how it is called
   * @return the info with the hook
   */
  public Info beforeScore(Hook hook) {
    Builder builder = change();
    builder.beforeScore = Objects.requireNonNull(hook, "hook");
    return new Info(builder);
  }

  /**
   * Asks for the annotations of pods and nodes whose key begins with this; "" asks for all. May be
   * called several times. Default: none are sent. For verbs without {@link Verb#reads}.
   *
   * @param prefixes beginnings of keys
   */
  public Info annotations(String... prefixes) {
    Builder builder = change();
    builder.annotations.addAll(List.of(prefixes));
    return new Info(builder);
  }

  /** Requests the pod's JSON too, for fields that its facts omit. Not for pure verbs. */
  public Info rawPod() {
    Builder builder = change();
    builder.wantsRawPod = true;
    return new Info(builder);
  }

  /**
   * Nodes come with each call in full. Without this, a policy that wants facts holds them and
   * receives only changes.
   *
   * @return the info without the table
   */
  public Info withoutNodeTable() {
    Builder builder = change();
    builder.keepsTable = false;
    return new Info(builder);
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
   * @param introspection from a request to the value
   * @return the info with the path
   */
  public Info shows(String path, String description, Introspection introspection) {
    Builder builder = change();
    builder.paths.add(
        new ShownPath(
            Objects.requireNonNull(path, "path"),
            Objects.requireNonNull(description, "description"),
            Objects.requireNonNull(introspection, "introspection")));
    return new Info(builder);
  }

  /** Whether there is neither a verb nor a hook. */
  boolean declaresNothing() {
    return filter == null && score == null && preempt == null && bind == null && !hasHooks();
  }

  /** Whether there is a hook. */
  boolean hasHooks() {
    return beforeFilter != null || beforeFilterNodes != null || beforeScore != null;
  }

  /** The same without declarations of what is read: everything is sent. */
  Info readingEverything() {
    Builder builder = change();
    builder.filter = filter == null ? null : filter.readingEverything();
    builder.score = score == null ? null : score.readingEverything();
    builder.preempt = preempt == null ? null : preempt.readingEverything();
    builder.bind = bind == null ? null : bind.readingEverything();
    builder.beforeFilter = beforeFilter == null ? null : beforeFilter.readingEverything();
    builder.beforeFilterNodes =
        beforeFilterNodes == null ? null : beforeFilterNodes.readingEverything();
    builder.beforeScore = beforeScore == null ? null : beforeScore.readingEverything();
    return new Info(builder);
  }
}
