package io.extendergateway.policy;

import com.google.errorprone.annotations.CanIgnoreReturnValue;
import com.google.errorprone.annotations.FormatMethod;
import io.grpc.Status;

/** Why a call is not answered: a status of the contract's error table. */
final class CallException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final Status.Code code;

  private CallException(Status.Code code, String message) {
    super(message, null, false, false);
    this.code = code;
  }

  static CallException of(Status.Code code, String message) {
    return new CallException(code, Utf8.cut(message, Limits.STATUS_MESSAGE_BYTES));
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
}
