package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** The digest by which calls name what the handshake has told. */
final class Sha256 {
  static final int BYTES = 32;

  private Sha256() {}

  static ByteString of(ByteString content) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      content.asReadOnlyByteBufferList().forEach(digest::update);
      return ByteString.copyFrom(digest.digest());
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException("every Java platform has SHA-256", impossible);
    }
  }
}
