package io.extendergateway.policy;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.Signature;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Private keys in the three forms that are in use: PKCS #8, and the older ones of RSA and EC keys,
 * which Java does not read and cert-manager writes by default.
 */
final class Pem {
  private static final Pattern KEY =
      Pattern.compile("-----BEGIN ((?:RSA |EC )?)PRIVATE KEY-----([^-]*)-----END", Pattern.DOTALL);

  /** AlgorithmIdentifier of RSA: rsaEncryption, NULL. */
  private static final byte[] RSA = HexFormat.of().parseHex("300d06092a864886f70d0101010500");

  /** The OID id-ecPublicKey. */
  private static final byte[] EC = HexFormat.of().parseHex("06072a8648ce3d0201");

  private static final byte[] VERSION_0 = {0x02, 0x01, 0x00};

  private Pem() {}

  static PrivateKey key(String text) throws GeneralSecurityException {
    Matcher found = KEY.matcher(text);
    if (!found.find()) {
      throw new InvalidKeyException(
          text.contains("ENCRYPTED") ? "it is encrypted" : "it has no -----BEGIN PRIVATE KEY-----");
    }
    byte[] der = Base64.getMimeDecoder().decode(found.group(2).trim());
    return switch (found.group(1)) {
      case "RSA " -> load("RSA", wrapped(RSA, der));
      case "EC " -> load("EC", wrapped(sequence(EC, curve(der)), der));
      default -> pkcs8(der);
    };
  }

  /** The algorithm is in the key; trying is shorter than reading it. */
  private static PrivateKey pkcs8(byte[] der) throws GeneralSecurityException {
    GeneralSecurityException last = null;
    for (String algorithm : List.of("RSA", "EC", "EdDSA")) {
      try {
        return load(algorithm, der);
      } catch (GeneralSecurityException wrong) {
        last = wrong;
      }
    }
    throw last;
  }

  private static PrivateKey load(String algorithm, byte[] pkcs8) throws GeneralSecurityException {
    return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(pkcs8));
  }

  /** PrivateKeyInfo around an older form. */
  private static byte[] wrapped(byte[] algorithm, byte[] key) {
    return sequence(VERSION_0, algorithm, tagged(0x04, key));
  }

  /** The named curve, an OID, in ECPrivateKey: after the version and the key itself. */
  private static byte[] curve(byte[] der) throws InvalidKeyException {
    for (int at = 0; at + 4 < der.length; at++) {
      boolean parameters = der[at] == (byte) 0xa0 && der[at + 2] == 0x06;
      if (parameters && der[at + 1] == der[at + 3] + 2 && at + 4 + der[at + 3] <= der.length) {
        return java.util.Arrays.copyOfRange(der, at + 2, at + 4 + der[at + 3]);
      }
    }
    throw new InvalidKeyException("its curve is not named");
  }

  private static byte[] sequence(byte[]... parts) {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    for (byte[] part : parts) {
      content.writeBytes(part);
    }
    return tagged(0x30, content.toByteArray());
  }

  private static byte[] tagged(int tag, byte[] content) {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    all.write(tag);
    if (content.length < 0x80) {
      all.write(content.length);
    } else {
      int bytes = content.length < 0x100 ? 1 : content.length < 0x10000 ? 2 : 3;
      all.write(0x80 | bytes);
      for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
        all.write(content.length >> shift);
      }
    }
    all.writeBytes(content);
    return all.toByteArray();
  }

  /**
   * Whether the certificate has the public half of the key: files may be read while they are being
   * replaced.
   */
  static boolean belongTogether(X509Certificate certificate, PrivateKey key) {
    String algorithm =
        switch (key.getAlgorithm()) {
          case "RSA" -> "SHA256withRSA";
          case "EC" -> "SHA256withECDSA";
          default -> key.getAlgorithm();
        };
    byte[] text = "proof".getBytes(StandardCharsets.US_ASCII);
    try {
      Signature sign = Signature.getInstance(algorithm);
      sign.initSign(key);
      sign.update(text);
      byte[] signature = sign.sign();
      Signature verify = Signature.getInstance(algorithm);
      verify.initVerify(certificate.getPublicKey());
      verify.update(text);
      return verify.verify(signature);
    } catch (GeneralSecurityException wrong) {
      return false;
    }
  }
}
