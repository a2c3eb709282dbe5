package io.extendergateway.policy;

import java.text.MessageFormat;
import java.util.ResourceBundle;
import java.util.regex.Pattern;

/** A logger whose lines begin with the call and the pod that they are about. */
record PodLogger(System.Logger logger, String subject) implements System.Logger {
  private static final Pattern CONTROL = Pattern.compile("\\p{Cc}");

  /** What a call is about. The pod may be unknown. */
  static String subject(String call, String pod) {
    return "call=" + shown(call) + (pod.isEmpty() ? "" : " pod=" + shown(pod));
  }

  /** The namespace and the name of a pod, as far as they are known. */
  static String pod(String namespace, String name) {
    return namespace + (namespace.isEmpty() || name.isEmpty() ? "" : "/") + name;
  }

  /** In one line: what callers send must not look like lines of others. */
  static String shown(String text) {
    return CONTROL.matcher(Utf8.cut(text, Limits.STATUS_MESSAGE_BYTES)).replaceAll("?");
  }

  @Override
  public String getName() {
    return logger.getName();
  }

  @Override
  public boolean isLoggable(Level level) {
    return logger.isLoggable(level);
  }

  @Override
  public void log(Level level, ResourceBundle bundle, String text, Throwable thrown) {
    if (isLoggable(level)) {
      logger.log(level, subject + ": " + localized(bundle, text), thrown);
    }
  }

  @Override
  public void log(Level level, ResourceBundle bundle, String format, Object... values) {
    if (isLoggable(level)) {
      logger.log(level, subject + ": " + formatted(localized(bundle, format), values));
    }
  }

  /** A pattern that is wrong is logged as it is: no line of a log makes a call fail. */
  private static String formatted(String text, Object... values) {
    try {
      return values == null || values.length == 0 ? text : MessageFormat.format(text, values);
    } catch (IllegalArgumentException wrong) {
      return text;
    }
  }

  private static String localized(ResourceBundle bundle, String text) {
    return bundle == null ? text : bundle.getString(text);
  }
}
