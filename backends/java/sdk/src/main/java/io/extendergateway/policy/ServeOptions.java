package io.extendergateway.policy;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;

/** How a backend is served. Immutable: each method returns new options. */
public final class ServeOptions {
  private static final String DEFAULT_ADDRESS = "127.0.0.1:0";
  private static final List<String> NAMES =
      List.of("--address", "--tls-cert", "--tls-key", "--tls-client-ca");

  private static final String ALLOW_BIND = "--allow-unauthenticated-bind";

  /** {@code HOST:PORT}. */
  String address = DEFAULT_ADDRESS;

  /** All {@code null}: no TLS; the last one alone: clients need no certificate. */
  Path tlsCert;

  Path tlsKey;
  Path tlsClientCa;
  Duration drain = Duration.ofSeconds(10);
  boolean allowUnauthenticatedBind;

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
   * Spans are sent as if these were the {@code OTEL_*} variables of this process, and no others. An
   * empty map turns them off.
   */
  public ServeOptions telemetry(Map<String, String> names) {
    return with(copy -> copy.variables = Map.copyOf(names));
  }

  /**
   * Takes the options of every backend out of a command line, for a program with options of its
   * own: {@code --address HOST:PORT}, {@code --tls-cert FILE}, {@code --tls-key FILE} and {@code
   * --tls-client-ca FILE}, each also as {@code --name=value}, and {@code
   * --allow-unauthenticated-bind}.
   *
   * @param arguments the command line; only what is not taken stays in it
   * @throws UsageException if a value is missing or wrong
   */
  public static ServeOptions take(List<String> arguments) throws UsageException {
    Map<String, String> given = new HashMap<>();
    List<String> others = new ArrayList<>();
    for (Iterator<String> all = arguments.iterator(); all.hasNext(); ) {
      String argument = all.next();
      int equals = argument.indexOf('=');
      String name = equals < 0 ? argument : argument.substring(0, equals);
      if (argument.equals(ALLOW_BIND)) {
        given.put(ALLOW_BIND, "");
        continue;
      }
      if (!NAMES.contains(name)) {
        others.add(argument);
        continue;
      }
      String value = equals >= 0 ? argument.substring(equals + 1) : all.hasNext() ? all.next() : "";
      if (value.isEmpty() || (equals < 0 && value.startsWith("--"))) {
        throw new UsageException("%s has no value; expected %s".formatted(name, expected(name)));
      }
      if (given.put(name, value) != null) {
        throw new UsageException("%s is given twice; give it once".formatted(name));
      }
    }
    ServeOptions options = of(given);
    arguments.clear();
    arguments.addAll(others);
    return options;
  }

  private static String expected(String name) {
    return name.equals("--address") ? "HOST:PORT such as 0.0.0.0:9000" : "the path of a PEM file";
  }

  private static ServeOptions of(Map<String, String> given) throws UsageException {
    ServeOptions options = defaults();
    String address = given.get("--address");
    if (address != null) {
      HostPort.parse(address);
      options = options.address(address);
    }
    if (given.containsKey(ALLOW_BIND)) {
      options = options.allowUnauthenticatedBind();
    }
    String cert = given.get("--tls-cert");
    String key = given.get("--tls-key");
    String authority = given.get("--tls-client-ca");
    if ((cert == null) != (key == null)) {
      throw new UsageException(
          "%s is given without %s; TLS needs both a certificate and its key"
              .formatted(
                  cert == null ? "--tls-key" : "--tls-cert",
                  cert == null ? "--tls-cert" : "--tls-key"));
    }
    if (authority != null && cert == null) {
      throw new UsageException(
          "--tls-client-ca is given without --tls-cert and --tls-key; client certificates need TLS");
    }
    if (cert != null) {
      options = options.tls(Path.of(cert), Path.of(key));
    }
    return authority == null ? options : options.tlsClientCa(Path.of(authority));
  }

  /** An address that is not resolved yet. */
  record HostPort(String host, int port) {
    static HostPort parse(String text) throws UsageException {
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
        throw new UsageException(
            "invalid --address \"%s\"; expected HOST:PORT such as 0.0.0.0:9000".formatted(text));
      }
      return new HostPort(host, Integer.parseInt(port));
    }
  }
}
