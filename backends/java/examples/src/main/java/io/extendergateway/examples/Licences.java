package io.extendergateway.examples;

import io.extendergateway.policy.Backend;
import io.extendergateway.policy.PolicyServer;
import io.extendergateway.policy.ServeException;
import io.extendergateway.policy.ServeOptions;
import io.extendergateway.policy.UsageException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.sql.DriverManager;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** The program of {@link LicencePolicy}: options of its own beside those of every backend. */
final class Licences {
  private static final String HELP =
      """
      Rejects nodes in whose host group no licence seat of the pod's product is free.
        --database URL          JDBC URL of a database with the tables `licences` and `leases`
        --user NAME             its user
        --password-file FILE    its password
        --refresh SECONDS       how often the tables are read [default: 2]
        --stale-after SECONDS   without a reading for this long the policy is not ready [default: 30]
        --apiserver URL         bind pods that need a licence, and take a lease for each
        --token-file FILE       the token for the apiserver
        --ca-file FILE          the authority of the apiserver's certificate (PEM)

      """;

  private Licences() {}

  /** The options that are not those of every backend. */
  private static final class Options {
    private final List<String> arguments;

    Options(List<String> arguments) {
      this.arguments = arguments;
    }

    Optional<String> take(String name) throws UsageException {
      int at = arguments.indexOf(name);
      if (at < 0) {
        return Optional.empty();
      }
      if (at + 1 == arguments.size()) {
        throw new UsageException(name + " has no value; expected one after it");
      }
      arguments.remove(at);
      return Optional.of(arguments.remove(at));
    }

    Duration seconds(String name, int otherwise) throws UsageException {
      Optional<String> given = take(name);
      try {
        int seconds = given.map(Integer::parseInt).orElse(otherwise);
        if (seconds > 0) {
          return Duration.ofSeconds(seconds);
        }
      } catch (NumberFormatException wrong) {
        // Reported below.
      }
      throw new UsageException(
          "invalid %s \"%s\"; expected a whole number of seconds, at least 1"
              .formatted(name, given.orElse("")));
    }

    void end() throws UsageException {
      if (!arguments.isEmpty()) {
        throw new UsageException(
            "unknown option %s; --help lists them".formatted(arguments.get(0)));
      }
    }
  }

  /** Serves the policy. */
  public static void main(String[] arguments) {
    List<String> given = new ArrayList<>(Arrays.asList(arguments));
    if (given.contains("--help")) {
      System.out.println(HELP + PolicyServer.help());
      return;
    }
    try {
      serve(given);
      System.exit(0);
    } catch (UsageException wrong) {
      System.err.println(wrong.getMessage());
      System.exit(2);
    } catch (ServeException | IOException | GeneralSecurityException failure) {
      System.err.println(failure.getMessage());
      System.exit(1);
    }
  }

  private static void serve(List<String> given)
      throws UsageException, ServeException, IOException, GeneralSecurityException {
    ServeOptions serve = ServeOptions.take(given);
    Options options = new Options(given);
    String url =
        options
            .take("--database")
            .orElseThrow(
                () ->
                    new UsageException(
                        "--database is missing; expected a JDBC URL such as jdbc:postgresql://db/licences"));
    String user = options.take("--user").orElse(null);
    Optional<String> passwordFile = options.take("--password-file");
    Duration refresh = options.seconds("--refresh", 2);
    Duration staleAfter = options.seconds("--stale-after", 30);
    Optional<Apiserver> apiserver = apiserver(options);
    options.end();
    String password =
        passwordFile.isEmpty() ? null : Files.readString(Path.of(passwordFile.get())).trim();
    LicenceDatabase.Connections connections =
        () -> DriverManager.getConnection(url, user, password);
    try (LicenceDatabase database =
        new LicenceDatabase(connections, refresh, staleAfter, System::nanoTime)) {
      Backend backend =
          Backend.configured(
              LicencePolicy.Args.class, args -> new LicencePolicy(database, apiserver, args));
      PolicyServer.serve(backend, serve);
    }
  }

  private static Optional<Apiserver> apiserver(Options options)
      throws UsageException, IOException, GeneralSecurityException {
    Optional<String> url = options.take("--apiserver");
    Optional<Path> token = options.take("--token-file").map(Path::of);
    Optional<Path> authority = options.take("--ca-file").map(Path::of);
    if (url.isEmpty()) {
      return Optional.empty();
    }
    try {
      return Optional.of(new Apiserver(URI.create(url.get()), token, authority));
    } catch (IllegalArgumentException wrong) {
      throw new UsageException(
          "invalid --apiserver \"%s\"; expected a URL such as https://kubernetes.default.svc"
              .formatted(url.get()));
    }
  }
}
