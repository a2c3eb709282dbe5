package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.PolicyServiceGrpc;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** TLS, client certificates, and certificates that change. */
class TlsTest {
  private static final Policy POLICY = new Declaring(Info.of("p", "1").filters(Verb.perNode()));

  @TempDir private Path folder;

  /** A certificate that is its own authority, and its key, as PEM files. */
  private record Pair(Path cert, Path key) {}

  private Pair pair(String name, String algorithm) throws Exception {
    Path store = folder.resolve(name + ".p12");
    Process keytool =
        new ProcessBuilder(
                List.of(
                    Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                    "-genkeypair",
                    "-alias",
                    "k",
                    "-keyalg",
                    algorithm,
                    "-dname",
                    "CN=" + name,
                    "-ext",
                    "san=ip:127.0.0.1",
                    "-storetype",
                    "PKCS12",
                    "-keystore",
                    store.toString(),
                    "-storepass",
                    "secret"))
            .redirectErrorStream(true)
            .redirectOutput(new File("/dev/null"))
            .start();
    assertEquals(0, keytool.waitFor());
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream input = Files.newInputStream(store)) {
      keys.load(input, "secret".toCharArray());
    }
    Pair pair = new Pair(folder.resolve(name + ".crt"), folder.resolve(name + ".key"));
    X509Certificate certificate = (X509Certificate) keys.getCertificate("k");
    pem(pair.cert, "CERTIFICATE", certificate.getEncoded());
    PrivateKey key = (PrivateKey) keys.getKey("k", "secret".toCharArray());
    pem(pair.key, "PRIVATE KEY", key.getEncoded());
    return pair;
  }

  private static void pem(Path file, String type, byte[] der) throws IOException {
    String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der);
    Files.writeString(
        file, "-----BEGIN %s-----\n%s\n-----END %s-----\n".formatted(type, text, type));
  }

  private static String called(String address, Path authority, Pair client) throws Exception {
    TlsChannelCredentials.Builder credentials =
        TlsChannelCredentials.newBuilder().trustManager(authority.toFile());
    if (client != null) {
      credentials.keyManager(client.cert.toFile(), client.key.toFile());
    }
    ManagedChannel channel = Grpc.newChannelBuilder(address, credentials.build()).build();
    try {
      return PolicyServiceGrpc.newBlockingStub(channel)
          .withDeadlineAfter(20, TimeUnit.SECONDS)
          .getInfo(GetInfoRequest.getDefaultInstance())
          .getName();
    } finally {
      channel.shutdownNow();
    }
  }

  /** Whether this certificate is served within some seconds. */
  private static boolean served(String address, Path authority, Pair client) throws Exception {
    for (int attempt = 0; attempt < 60; attempt++) {
      try {
        return called(address, authority, client).equals("p");
      } catch (StatusRuntimeException stillTheOldOne) {
        Thread.sleep(250);
      }
    }
    return false;
  }

  private static void refused(String address, Path authority, Pair client) {
    Status status = Served.failure(() -> called(address, authority, client));
    assertEquals(Status.Code.UNAVAILABLE, status.getCode(), status.toString());
  }

  @Test
  void clientsNeedACertificateAndANewOneIsServedWithoutARestart() throws Exception {
    Pair first = pair("first", "RSA");
    Pair second = pair("second", "EC");
    Pair gateway = pair("gateway", "EC");
    Pair stranger = pair("stranger", "EC");
    Pair current = new Pair(folder.resolve("tls.crt"), folder.resolve("tls.key"));
    replace(first, current);
    ServeOptions options = Served.OPTIONS.tls(current.cert, current.key).tlsClientCa(gateway.cert);
    try (PolicyServer server = PolicyServer.start(Backend.of(POLICY), options)) {
      assertEquals("p", called(server.address(), first.cert, gateway));
      refused(server.address(), first.cert, null);
      refused(server.address(), first.cert, stranger);
      refused(server.address(), second.cert, gateway);
      // A key that does not belong to the certificate, and then no certificate at all: the old one
      // stays.
      Files.copy(second.cert, current.cert, StandardCopyOption.REPLACE_EXISTING);
      Thread.sleep(1_500);
      assertEquals("p", called(server.address(), first.cert, gateway));
      Files.writeString(current.cert, "broken");
      Thread.sleep(1_500);
      assertEquals("p", called(server.address(), first.cert, gateway));
      replace(second, current);
      assertTrue(served(server.address(), second.cert, gateway));
      refused(server.address(), first.cert, gateway);
    }
  }

  private static void replace(Pair by, Pair current) throws IOException {
    Files.copy(by.cert, current.cert, StandardCopyOption.REPLACE_EXISTING);
    Files.copy(by.key, current.key, StandardCopyOption.REPLACE_EXISTING);
  }

  @Test
  void filesThatCannotBeUsedAreNamed() throws Exception {
    Pair pair = pair("p", "EC");
    Pair other = pair("other", "RSA");
    Path text = Files.writeString(folder.resolve("text"), "text");
    Path absent = folder.resolve("absent");
    wrong("cannot read --tls-key " + absent + ": there is no such file", pair.cert, absent);
    wrong("--tls-cert " + text + " ", text, pair.key);
    wrong("--tls-key " + text + " is not a private key", pair.cert, text);
    wrong("the key in --tls-key " + other.key + " does not belong to", pair.cert, other.key);
  }

  private static void wrong(String text, Path cert, Path key) {
    ServeException failure =
        assertThrows(
            ServeException.class,
            () -> PolicyServer.start(Backend.of(POLICY), Served.OPTIONS.tls(cert, key)));
    assertTrue(failure.getMessage().startsWith(text), failure.getMessage());
  }

  @Test
  void theOlderFormsOfKeysAreReadToo() throws Exception {
    for (String algorithm : List.of("RSA", "EC")) {
      Pair pair = pair(algorithm, algorithm);
      PrivateKey key = Pem.key(Files.readString(pair.key));
      byte[] pkcs8 = key.getEncoded();
      // The last part of PKCS #8 is the older form.
      byte[] inner = Arrays.copyOfRange(pkcs8, algorithm.equals("RSA") ? 26 : 27, pkcs8.length);
      if (algorithm.equals("EC")) {
        inner = named(pkcs8);
      }
      Path older = folder.resolve("older");
      pem(older, algorithm + " PRIVATE KEY", inner);
      PrivateKey read = Pem.key(Files.readString(older));
      if (algorithm.equals("RSA")) {
        assertArrayEquals(pkcs8, read.getEncoded());
      } else {
        assertEquals(
            ((java.security.interfaces.ECPrivateKey) key).getS(),
            ((java.security.interfaces.ECPrivateKey) read).getS());
      }
    }
  }

  /** ECPrivateKey with its curve, as OpenSSL writes it. */
  private static byte[] named(byte[] pkcs8) throws Exception {
    var key =
        (java.security.interfaces.ECPrivateKey)
            java.security.KeyFactory.getInstance("EC")
                .generatePrivate(new java.security.spec.PKCS8EncodedKeySpec(pkcs8));
    int size = (key.getParams().getOrder().bitLength() + 7) / 8;
    byte[] secret = new byte[size];
    byte[] number = key.getS().toByteArray();
    int from = Math.max(0, number.length - size);
    System.arraycopy(number, from, secret, size - (number.length - from), number.length - from);
    java.security.AlgorithmParameters curve = java.security.AlgorithmParameters.getInstance("EC");
    curve.init(key.getParams());
    byte[] oid = curve.getEncoded();
    var body = new java.io.ByteArrayOutputStream();
    body.writeBytes(new byte[] {2, 1, 1, 4, (byte) size});
    body.writeBytes(secret);
    body.writeBytes(new byte[] {(byte) 0xa0, (byte) oid.length});
    body.writeBytes(oid);
    byte[] content = body.toByteArray();
    byte[] all = new byte[content.length + 2];
    all[0] = 0x30;
    all[1] = (byte) content.length;
    System.arraycopy(content, 0, all, 2, content.length);
    return all;
  }
}
