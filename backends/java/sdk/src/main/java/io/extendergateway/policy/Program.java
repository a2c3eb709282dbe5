package io.extendergateway.policy;

import java.io.IOException;
import java.io.OutputStream;
import java.net.URISyntaxException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.CodeSource;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

/**
 * The revision of a policy that sets none: replicas of one build have the same one, and an edited
 * policy has another one, also with the same version.
 */
final class Program {
  private static final int REVISION_BYTES = 64;

  private static final Map<CodeSource, String> DIGESTS = new ConcurrentHashMap<>();

  private Program() {}

  /** The version, and the beginning of the digest of the jar or folder of the policy's class. */
  static String revision(Policy policy, String version) {
    CodeSource source = policy.getClass().getProtectionDomain().getCodeSource();
    String digest =
        source == null ? "" : DIGESTS.computeIfAbsent(source, known -> digest(known.getLocation()));
    return Utf8.cut(version, REVISION_BYTES - digest.length()) + digest;
  }

  /** Empty if it cannot be read. */
  static String digest(URL location) {
    try {
      Path program = Path.of(location.toURI());
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (Path file : files(program)) {
        digest.update(program.relativize(file).toString().getBytes(StandardCharsets.UTF_8));
        try (var bytes = new DigestInputStream(Files.newInputStream(file), digest)) {
          bytes.transferTo(OutputStream.nullOutputStream());
        }
      }
      return "+" + HexFormat.of().formatHex(digest.digest(), 0, 6);
    } catch (IOException
        | URISyntaxException
        | NoSuchAlgorithmException
        | RuntimeException unreadable) {
      Failures.LOG.log(System.Logger.Level.DEBUG, "the program cannot be read", unreadable);
      return "";
    }
  }

  private static List<Path> files(Path program) throws IOException {
    try (Stream<Path> all = Files.walk(program)) {
      return all.filter(Files::isRegularFile).sorted().toList();
    }
  }
}
