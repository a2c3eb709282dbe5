package io.extendergateway.policy;

import io.grpc.Status;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
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
    if (unwrapped(thrown) instanceof ShowException shown) {
      return hidden(
          unwrapped(shown.getCause()),
          "failed to show %s; the backend's log says why".formatted(shown.path));
    }
    Throwable cause = unwrapped(thrown);
    return hidden(
        cause,
        "%s failed (%s); see the policy's log"
            .formatted(inSentence(method), cause.getClass().getSimpleName()));
  }

  private static CallException hidden(Throwable cause, String unexpected) {
    return of(
        cause,
        failure -> failure instanceof UndeclaredReadException ? withText(failure) : unexpected);
  }

  /** A method of the contract as texts name it, such as beforeFilter. */
  static String inSentence(String method) {
    return method.substring(0, 1).toLowerCase(Locale.ROOT) + method.substring(1);
  }

  /** What the author of a policy gets to see in a test. */
  static String testText(Throwable thrown) {
    Throwable cause = unwrapped(thrown);
    return cause instanceof ShowException
        ? of(cause, "Introspect").getMessage()
        : of(cause, Failures::withText).getMessage();
  }

  private static String withText(Throwable failure) {
    String line = text(failure).lines().findFirst().orElse("");
    return "the policy failed: " + Utf8.cut(line, MAX_TEXT_BYTES);
  }

  private static Throwable unwrapped(Throwable thrown) {
    Throwable cause = thrown;
    while ((cause instanceof CompletionException || cause instanceof ExecutionException)
        && cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause;
  }

  private static CallException of(Throwable cause, Function<Throwable, String> unexpected) {
    if (cause instanceof CallException known) {
      if (known.code() == Status.Code.INTERNAL) {
        // Its text says where, a trace would not.
        String text = "a call failed: %s; this is logged once".formatted(known.getMessage());
        logOnce(known.getMessage(), text, null);
      }
      return known;
    }
    if (cause instanceof ArgsException || cause instanceof InvalidParameterException) {
      return CallException.of(Status.Code.INVALID_ARGUMENT, text(cause));
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
    return CallException.of(Status.Code.INTERNAL, unexpected.apply(cause));
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
