package io.extendergateway.policy;

/**
 * What a path of {@link Info#shows} shows: from a request to a value, which is written as JSON.
 *
 * <p>Records, maps (by text), lists, texts, numbers, booleans, enums, {@link java.util.Optional}s
 * and times are written as one would expect; an empty Optional is {@code null}, a time is its text
 * in ISO 8601. Other classes are written by Jackson. NaN and infinity, which JSON does not have,
 * are the texts {@code "NaN"}, {@code "Infinity"} and {@code "-Infinity"}. Return a value that does
 * not change any more, such as {@link java.util.Map#copyOf a copy}: it is written after this
 * returns.
 */
@FunctionalInterface
public interface Introspection {
  /**
   * The value. May wait: it runs on a thread of its own, which is interrupted when the caller
   * cancels or no time is left; the gateway waits 5 s. Must be free of side effects, and should not
   * show secrets. At most 4 MiB as JSON; {@code null} is JSON's null.
   *
   * @throws NotFoundException if there is no such object: NOT_FOUND with this text
   * @throws InvalidParameterException if a parameter or the query is invalid: INVALID_ARGUMENT with
   *     this text
   * @throws NotReadyException if the policy cannot tell now: UNAVAILABLE with this text
   * @throws Exception any other failure: INTERNAL
   */
  Object show(IntrospectAsk ask) throws Exception;
}
