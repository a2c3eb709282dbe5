package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import io.grpc.ServerCredentials;
import io.grpc.TlsServerCredentials;
import io.grpc.util.AdvancedTlsX509KeyManager;
import io.grpc.util.AdvancedTlsX509TrustManager;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Collection;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Certificates that are read again when their files change. New connections get the new ones; files
 * that cannot be used leave the old ones in place, and one line is logged for each such change.
 */
final class Tls {
  private final ServeOptions options;
  private final AdvancedTlsX509KeyManager keys = new AdvancedTlsX509KeyManager();
  private final AdvancedTlsX509TrustManager trust;
  private Contents known;

  /** The bytes of the files; the last is empty without client certificates. */
  private record Contents(ByteString cert, ByteString key, ByteString authority) {}

  /** What is wrong with the files, as a sentence. */
  private static final class UnusableException extends Exception {
    private static final long serialVersionUID = 1L;

    UnusableException(String sentence, Throwable cause) {
      super(sentence, cause);
    }
  }

  private Tls(ServeOptions options) throws GeneralSecurityException {
    this.options = options;
    // Certificates of clients have no host name that could be compared.
    trust =
        AdvancedTlsX509TrustManager.newBuilder()
            .setVerification(AdvancedTlsX509TrustManager.Verification.CERTIFICATE_ONLY_VERIFICATION)
            .build();
  }

  /** The credentials of the files that the options name, which this executor watches. */
  static ServerCredentials credentials(ServeOptions options, ScheduledExecutorService timers)
      throws ServeException {
    try {
      Tls tls = new Tls(options);
      Contents contents = tls.read();
      tls.use(contents);
      tls.known = contents;
      Future<?> unused = timers.scheduleWithFixedDelay(tls::again, 1, 1, TimeUnit.SECONDS);
      TlsServerCredentials.Builder credentials =
          TlsServerCredentials.newBuilder().keyManager(tls.keys);
      if (options.tlsClientCa != null) {
        credentials.trustManager(tls.trust).clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
      }
      return credentials.build();
    } catch (UnusableException wrong) {
      throw new ServeException(wrong.getMessage(), wrong);
    } catch (GeneralSecurityException wrong) {
      throw new ServeException("cannot use TLS: " + wrong.getMessage(), wrong);
    }
  }

  private void again() {
    Contents contents;
    try {
      contents = read();
    } catch (UnusableException wrong) {
      // Logged once: what is known now are no contents.
      refused(new Contents(ByteString.EMPTY, ByteString.EMPTY, ByteString.EMPTY), wrong);
      return;
    }
    if (contents.equals(known)) {
      return;
    }
    try {
      use(contents);
      known = contents;
      Failures.LOG.log(
          System.Logger.Level.INFO,
          "the TLS files have changed; new connections get the new certificate");
    } catch (UnusableException wrong) {
      refused(contents, wrong);
    }
  }

  private void refused(Contents contents, UnusableException wrong) {
    if (!contents.equals(known)) {
      Failures.LOG.log(
          System.Logger.Level.WARNING,
          "the TLS files have changed and cannot be used, the previous certificate stays: "
              + wrong.getMessage());
    }
    known = contents;
  }

  private Contents read() throws UnusableException {
    ByteString authority =
        options.tlsClientCa == null
            ? ByteString.EMPTY
            : read("--tls-client-ca", options.tlsClientCa);
    return new Contents(
        read("--tls-cert", options.tlsCert), read("--tls-key", options.tlsKey), authority);
  }

  private static ByteString read(String option, Path file) throws UnusableException {
    try {
      return ByteString.copyFrom(Files.readAllBytes(file));
    } catch (NoSuchFileException wrong) {
      throw new UnusableException(
          "cannot read %s %s: there is no such file; give the path of a PEM file"
              .formatted(option, file),
          wrong);
    } catch (IOException wrong) {
      throw new UnusableException(
          "cannot read %s %s: %s; give the path of a PEM file that this user may read"
              .formatted(option, file, wrong.getMessage()),
          wrong);
    }
  }

  private void use(Contents contents) throws UnusableException {
    X509Certificate[] chain = certificates("--tls-cert", options.tlsCert, contents.cert);
    PrivateKey key = key(contents.key);
    if (!Pem.belongTogether(chain[0], key)) {
      throw new UnusableException(
          "the key in --tls-key %s does not belong to the certificate in --tls-cert %s; give the key with which the"
                  .formatted(options.tlsKey, options.tlsCert)
              + " certificate was requested",
          null);
    }
    X509Certificate[] authorities =
        options.tlsClientCa == null
            ? null
            : certificates("--tls-client-ca", options.tlsClientCa, contents.authority);
    try {
      keys.updateIdentityCredentials(chain, key);
      if (authorities != null) {
        trust.updateTrustCredentials(authorities);
      }
    } catch (GeneralSecurityException | IOException wrong) {
      throw new UnusableException("cannot use the TLS files: " + wrong.getMessage(), wrong);
    }
  }

  private static X509Certificate[] certificates(String option, Path file, ByteString pem)
      throws UnusableException {
    try {
      Collection<? extends java.security.cert.Certificate> all =
          CertificateFactory.getInstance("X.509").generateCertificates(pem.newInput());
      if (!all.isEmpty()) {
        return all.toArray(X509Certificate[]::new);
      }
      throw new UnusableException(
          "%s %s has no certificate; expected PEM that begins with -----BEGIN CERTIFICATE-----"
              .formatted(option, file),
          null);
    } catch (GeneralSecurityException wrong) {
      throw new UnusableException(
          "%s %s is not a certificate: %s; expected PEM that begins with -----BEGIN CERTIFICATE-----"
              .formatted(option, file, wrong.getMessage()),
          wrong);
    }
  }

  private PrivateKey key(ByteString pem) throws UnusableException {
    try {
      return Pem.key(pem.toStringUtf8());
    } catch (GeneralSecurityException | IllegalArgumentException wrong) {
      throw new UnusableException(
          "--tls-key %s is not a private key: %s; expected an RSA or EC key as PEM without a password"
              .formatted(options.tlsKey, wrong.getMessage()),
          wrong);
    }
  }
}
