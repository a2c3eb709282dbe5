package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.ErrorReason;
import io.grpc.Status;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Turns what the author's code throws into the status of the call. */
final class Failures {
  static final System.Logger LOG = System.getLogger("io.extendergateway.policy");

  private static final int MAX_TEXT_BYTES = 200;
  private static final int MAX_PLACES = 1000;

  /**
   * So many frames of a trace tell one place from another: the first ones may be those of this SDK.
   */
  private static final int FRAMES = 6;

  /**
   * The places and mistakes that have been logged: a bug that every call meets must not fill the
   * disk.
   */
  private static final Set<String> LOGGED = ConcurrentHashMap.newKeySet();

  private Failures() {}

  /** What a path could not show, and why. */
  static final class ShowException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String path;

    ShowException(String path, Throwable cause) {
      super(null, cause, false, false);
      this.path = path;
    }
  }

  /**
   * For a call of this method of the contract. The text of an exception may hold anything, and this
   * answer reaches people outside.
   */
  static CallException of(Throwable thrown, String method) {
    Throwable cause = unwrapped(thrown);
    String unexpected =
        "%s failed (%s); see the policy's log"
            .formatted(inSentence(method), cause.getClass().getSimpleName());
    if (cause instanceof ShowException shown) {
      cause = unwrapped(shown.getCause());
      unexpected = "failed to show %s; the backend's log says why".formatted(shown.path);
    }
    return failure(
        cause, cause instanceof UndeclaredReadException ? withText(cause, method) : unexpected);
  }

  /** A method of the contract as texts name it, such as beforeFilter. */
  static String inSentence(String method) {
    return method.substring(0, 1).toLowerCase(Locale.ROOT) + method.substring(1);
  }

  /** What the author of a policy gets to see in a test of this method. */
  static String testText(Throwable thrown, String method) {
    Throwable cause = unwrapped(thrown);
    return cause instanceof ShowException
        ? of(cause, method).getMessage()
        : failure(cause, withText(cause, method)).getMessage();
  }

  private static String withText(Throwable failure, String method) {
    String line = text(failure).lines().findFirst().orElse("");
    return inSentence(method) + " failed: " + Utf8.cut(line, MAX_TEXT_BYTES);
  }

  private static Throwable unwrapped(Throwable thrown) {
    Throwable cause = thrown;
    while ((cause instanceof CompletionException || cause instanceof ExecutionException)
        && cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause;
  }

  private static CallException failure(Throwable cause, String unexpected) {
    if (cause instanceof CallException known) {
      if (known.code() == Status.Code.INTERNAL) {
        // Its text says where, a trace would not.
        String text = "a call failed: %s; this is logged once".formatted(known.getMessage());
        logOnce(known.getMessage(), text, null);
      }
      return known;
    }
    if (cause instanceof ArgsException) {
      return CallException.invalid("%s", text(cause))
          .because(ErrorReason.ERROR_REASON_INVALID_ARGS);
    }
    if (cause instanceof InvalidParameterException) {
      return CallException.invalid("%s", text(cause));
    }
    if (cause instanceof NotFoundException) {
      return CallException.of(Status.Code.NOT_FOUND, text(cause));
    }
    if (cause instanceof NotReadyException || cause instanceof BindFailedException) {
      return CallException.of(Status.Code.UNAVAILABLE, text(cause));
    }
    if (cause instanceof CannotAnswerException) {
      return CallException.of(Status.Code.ABORTED, text(cause));
    }
    if (cause instanceof DeclarationException) {
      return CallException.of(Status.Code.INTERNAL, text(cause));
    }
    log(cause);
    return CallException.of(Status.Code.INTERNAL, unexpected);
  }

  private static String text(Throwable cause) {
    String message = cause.getMessage();
    return message == null || message.isBlank() ? cause.getClass().getSimpleName() : message;
  }

  /** The trace, once for each place. */
  private static void log(Throwable cause) {
    String frames =
        Stream.of(cause.getStackTrace())
            .limit(FRAMES)
            .map(frame -> " at " + frame)
            .collect(Collectors.joining());
    logOnce(
        cause.getClass().getName() + frames,
        "the policy failed in a call: %s; the trace is logged once".formatted(cause),
        cause);
  }

  private static void logOnce(String key, String text, Throwable trace) {
    if (LOGGED.size() < MAX_PLACES && LOGGED.add(key)) {
      LOG.log(System.Logger.Level.ERROR, text, trace);
    }
  }
}
