package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.Call;

/**
 * The operator's args as a request names them.
 *
 * @param sha256 their SHA-256
 * @param args the args; empty if a call names them by the digest alone
 */
record NamedArgs(ByteString sha256, ByteString args) {
  /** Of an operator who has configured no args. */
  static final NamedArgs NONE = of(ByteString.EMPTY);

  /** Args that come in full. */
  static NamedArgs of(ByteString args) {
    checkLength(args);
    return new NamedArgs(Sha256.of(args), args);
  }

  /** Those of a call. */
  static NamedArgs of(Call call) {
    return of(call.getArgs(), call.getArgsSha256());
  }

  /** Those of a call with these fields. */
  static NamedArgs of(ByteString args, ByteString sha256) {
    if (args.isEmpty() && sha256.isEmpty()) {
      return NONE;
    }
    if (sha256.size() != Sha256.BYTES) {
      throw CallException.invalid(
          "call.args_sha256 has %d bytes; expected the %d of the SHA-256 of the args",
          sha256.size(), Sha256.BYTES);
    }
    checkLength(args);
    if (!args.isEmpty() && !sha256.equals(Sha256.of(args))) {
      throw CallException.invalid("call.args_sha256 is not the SHA-256 of call.args");
    }
    return new NamedArgs(sha256, args);
  }

  /** Before they are hashed: a message may have many times as many bytes. */
  private static void checkLength(ByteString args) {
    if (args.size() > Limits.ARGS_BYTES) {
      throw new ArgsException(
          "args has %d bytes; at most %d are allowed, put longer lists into a file of the policy"
              .formatted(args.size(), Limits.ARGS_BYTES));
    }
  }

  /** The same by their digest alone. */
  NamedArgs named() {
    return new NamedArgs(sha256, ByteString.EMPTY);
  }

  boolean areNone() {
    return sha256.equals(NONE.sha256);
  }

  /** Whether a policy can be built from them. */
  boolean areSent() {
    return !args.isEmpty() || areNone();
  }
}
