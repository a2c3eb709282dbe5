package io.extendergateway.policy;

import com.google.errorprone.annotations.CanIgnoreReturnValue;
import com.google.errorprone.annotations.FormatMethod;
import io.extendergateway.policy.v1beta1.ErrorReason;
import io.grpc.Metadata;
import io.grpc.Status;

/** Why a call is not answered: a status of the contract's error table. */
final class CallException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private static final Metadata.Key<String> REASON =
      Metadata.Key.of("extender-reason", Metadata.ASCII_STRING_MARSHALLER);

  private final Status.Code code;
  private final ErrorReason reason;

  private CallException(Status.Code code, ErrorReason reason, String message) {
    super(Utf8.cut(message, Limits.STATUS_MESSAGE_BYTES), null, false, false);
    this.code = code;
    this.reason = reason;
  }

  static CallException of(Status.Code code, String message) {
    ErrorReason usual =
        switch (code) {
          case INVALID_ARGUMENT -> ErrorReason.ERROR_REASON_INVALID_REQUEST;
          case UNAVAILABLE -> ErrorReason.ERROR_REASON_NOT_READY;
          case ABORTED -> ErrorReason.ERROR_REASON_CANNOT_ANSWER;
          case INTERNAL -> ErrorReason.ERROR_REASON_POLICY_FAILED;
          default -> ErrorReason.ERROR_REASON_UNSPECIFIED;
        };
    return new CallException(code, usual, message);
  }

  /** The same, and which of the errors of its code it is. */
  CallException because(ErrorReason other) {
    return new CallException(code, other, getMessage());
  }

  static boolean isBecause(Throwable failure, ErrorReason reason) {
    return failure instanceof CallException known && known.reason == reason;
  }

  /** The request is wrong. */
  @FormatMethod
  static CallException invalid(String format, Object... values) {
    return of(Status.Code.INVALID_ARGUMENT, format.formatted(values));
  }

  static CallException missing(String field) {
    return invalid("%s is missing; every request has it", field);
  }

  /** The policy is wrong. */
  @FormatMethod
  static CallException internal(String format, Object... values) {
    return of(Status.Code.INTERNAL, format.formatted(values));
  }

  /** What the policy returned: null is a mistake that the caller may read, as the text is ours. */
  @CanIgnoreReturnValue
  static <T> T returned(T value, String absent) {
    if (value == null) {
      throw internal("%s", absent);
    }
    return value;
  }

  Status.Code code() {
    return code;
  }

  Status status() {
    return code.toStatus().withDescription(getMessage());
  }

  /** The trailers of the status. */
  Metadata trailers() {
    Metadata trailers = new Metadata();
    if (reason != ErrorReason.ERROR_REASON_UNSPECIFIED) {
      trailers.put(REASON, reason.name());
    }
    return trailers;
  }
}
