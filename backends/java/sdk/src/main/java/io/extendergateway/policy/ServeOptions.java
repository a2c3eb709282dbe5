package io.extendergateway.policy;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** How a backend is served. Immutable: each method returns new options. */
public final class ServeOptions {
  private static final String DEFAULT_ADDRESS = "127.0.0.1:0";
  private static final String ALLOW_BIND = "--allow-unauthenticated-bind";
  private static final String LOG_CALLS = "--log-calls";
  private static final String HOST_PORT = "HOST:PORT such as 0.0.0.0:9000";
  private static final String PEM_FILE = "the path of a PEM file";

  /** The options, and what is expected as their value. */
  private static final Map<String, String> VALUES =
      Map.of(
          "--address", HOST_PORT,
          "--tls-cert", PEM_FILE,
          "--tls-key", PEM_FILE,
          "--tls-client-ca", PEM_FILE,
          "--metrics-address", HOST_PORT);

  /** The options without a value. */
  private static final List<String> FLAGS = List.of(ALLOW_BIND, LOG_CALLS);

  /** {@code HOST:PORT}. */
  String address = DEFAULT_ADDRESS;

  /** All {@code null}: no TLS; the last one alone: clients need no certificate. */
  Path tlsCert;

  Path tlsKey;
  Path tlsClientCa;
  Duration drain = Duration.ofSeconds(10);
  boolean allowUnauthenticatedBind;

  /** {@code null}: metrics are not served. */
  String metricsAddress;

  boolean logCalls;

  /** {@code null}: those of the process. */
  Map<String, String> variables;

  private ServeOptions() {}

  /** A changed copy: only the change writes to it. */
  private ServeOptions with(Consumer<ServeOptions> change) {
    ServeOptions copy = new ServeOptions();
    copy.address = address;
    copy.tlsCert = tlsCert;
    copy.tlsKey = tlsKey;
    copy.tlsClientCa = tlsClientCa;
    copy.drain = drain;
    copy.allowUnauthenticatedBind = allowUnauthenticatedBind;
    copy.metricsAddress = metricsAddress;
    copy.logCalls = logCalls;
    copy.variables = variables;
    change.accept(copy);
    return copy;
  }

  /**
   * The defaults: a free port of 127.0.0.1 without TLS, 10 seconds for calls in progress after the
   * first signal, and spans as the {@code OTEL_*} variables of the process say.
   */
  public static ServeOptions defaults() {
    return new ServeOptions();
  }

  /**
   * Where to listen: {@code HOST:PORT}, with brackets around an IPv6 address; port 0 takes a free
   * one.
   */
  public ServeOptions address(String hostAndPort) {
    return with(copy -> copy.address = hostAndPort);
  }

  /**
   * Serves TLS with this certificate with its chain and this private key, both PEM. The files are
   * read again when they change.
   */
  public ServeOptions tls(Path certificate, Path key) {
    return with(
        copy -> {
          copy.tlsCert = Objects.requireNonNull(certificate, "certificate");
          copy.tlsKey = Objects.requireNonNull(key, "key");
        });
  }

  /** Clients must present a certificate of this authority (PEM). Only with {@link #tls}. */
  public ServeOptions tlsClientCa(Path authority) {
    return with(copy -> copy.tlsClientCa = authority);
  }

  /** How long calls in progress may take after the first signal, before they are cancelled. */
  public ServeOptions drain(Duration most) {
    return with(copy -> copy.drain = most);
  }

  /**
   * Serves a policy that binds also beyond loopback to clients without a certificate: whoever
   * reaches the address may then bind pods.
   */
  public ServeOptions allowUnauthenticatedBind() {
    return with(copy -> copy.allowUnauthenticatedBind = true);
  }

  /**
   * Serves {@code GET /metrics} there in Prometheus' text format, {@code HOST:PORT}. Needs {@code
   * io.prometheus:prometheus-metrics-core} and {@code prometheus-metrics-exporter-httpserver} on
   * the class path, and serves what else is in their default registry.
   */
  public ServeOptions metricsAddress(String hostAndPort) {
    return with(copy -> copy.metricsAddress = hostAndPort);
  }

  /** Writes a line to the log for each call. */
  public ServeOptions logCalls() {
    return with(copy -> copy.logCalls = true);
  }

  /**
   * Spans are sent as if these were the {@code OTEL_*} variables of this process, and no others. An
   * empty map turns them off.
   */
  public ServeOptions telemetry(Map<String, String> names) {
    return with(copy -> copy.variables = Map.copyOf(names));
  }

  /**
   * Takes the options of every backend out of a command line, for a program with options of its
   * own: those that {@link PolicyServer#help} lists, each with a value also as {@code
   * --name=value}. One that is not given is taken from the environment: {@code --tls-cert} from
   * {@code EXTENDER_POLICY_TLS_CERT}.
   *
   * @param arguments the command line; only what is not taken stays in it
   * @throws UsageException if a value is missing or wrong
   */
  public static ServeOptions take(List<String> arguments) throws UsageException {
    return take(arguments, System.getenv());
  }

  /** The value of an option, and the option or variable that it is from. */
  private record Given(String value, String from) {}

  static ServeOptions take(List<String> arguments, Map<String, String> environment)
      throws UsageException {
    Map<String, Given> given = new HashMap<>();
    List<String> others = new ArrayList<>();
    for (Iterator<String> all = arguments.iterator(); all.hasNext(); ) {
      String argument = all.next();
      int equals = argument.indexOf('=');
      String name = equals < 0 ? argument : argument.substring(0, equals);
      if (FLAGS.contains(argument)) {
        given.put(argument, new Given("true", argument));
        continue;
      }
      if (!VALUES.containsKey(name)) {
        others.add(argument);
        continue;
      }
      String value = equals >= 0 ? argument.substring(equals + 1) : all.hasNext() ? all.next() : "";
      if (value.isEmpty() || (equals < 0 && value.startsWith("--"))) {
        throw new UsageException("%s has no value; expected %s".formatted(name, VALUES.get(name)));
      }
      if (given.put(name, new Given(value, name)) != null) {
        throw new UsageException("%s is given twice; give it once".formatted(name));
      }
    }
    Stream.concat(VALUES.keySet().stream(), FLAGS.stream())
        .forEach(name -> variable(name, environment).ifPresent(v -> given.putIfAbsent(name, v)));
    ServeOptions options = of(given);
    arguments.clear();
    arguments.addAll(others);
    return options;
  }

  /** An empty variable counts as unset. */
  private static Optional<Given> variable(String option, Map<String, String> environment) {
    String name =
        "EXTENDER_POLICY_" + option.substring(2).toUpperCase(Locale.ROOT).replace('-', '_');
    String value = environment.getOrDefault(name, "");
    return value.isEmpty() ? Optional.empty() : Optional.of(new Given(value, name));
  }

  private static ServeOptions of(Map<String, Given> given) throws UsageException {
    ServeOptions options = defaults();
    Given address = given.get("--address");
    if (address != null) {
      options = options.address(HostPort.parse(address.from, address.value).text());
    }
    Given metrics = given.get("--metrics-address");
    if (metrics != null) {
      options = options.metricsAddress(HostPort.parse(metrics.from, metrics.value).text());
    }
    if (isSet(given.get(ALLOW_BIND))) {
      options = options.allowUnauthenticatedBind();
    }
    if (isSet(given.get(LOG_CALLS))) {
      options = options.logCalls();
    }
    Given cert = given.get("--tls-cert");
    Given key = given.get("--tls-key");
    Given authority = given.get("--tls-client-ca");
    if ((cert == null) != (key == null)) {
      throw new UsageException(
          "%s is given without %s; TLS needs both a certificate and its key"
              .formatted(
                  cert == null ? key.from : cert.from, cert == null ? "--tls-cert" : "--tls-key"));
    }
    if (authority != null && cert == null) {
      throw new UsageException(
          "%s is given without --tls-cert and --tls-key; client certificates need TLS"
              .formatted(authority.from));
    }
    if (cert != null) {
      options = options.tls(Path.of(cert.value), Path.of(key.value));
    }
    return authority == null ? options : options.tlsClientCa(Path.of(authority.value));
  }

  private static boolean isSet(Given flag) throws UsageException {
    if (flag != null && !flag.value.equals("true") && !flag.value.equals("false")) {
      throw new UsageException(
          "invalid %s \"%s\"; expected true or false".formatted(flag.from, flag.value));
    }
    return flag != null && flag.value.equals("true");
  }

  /** An address that is not resolved yet. */
  record HostPort(String host, int port) {
    String text() {
      return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    /** With the name of the option or variable. */
    static HostPort parse(String from, String text) throws UsageException {
      int colon = text.lastIndexOf(':');
      String host = colon < 0 ? "" : text.substring(0, colon);
      if (host.startsWith("[") && host.endsWith("]")) {
        host = host.substring(1, host.length() - 1);
      } else if (host.contains(":")) {
        host = "";
      }
      String port = text.substring(colon + 1);
      boolean digits =
          !port.isEmpty() && port.length() <= 5 && port.chars().allMatch(c -> c >= '0' && c <= '9');
      if (host.isEmpty() || !digits || Integer.parseInt(port) > 65535) {
        throw new UsageException("invalid %s \"%s\"; expected %s".formatted(from, text, HOST_PORT));
      }
      return new HostPort(host, Integer.parseInt(port));
    }
  }
}
