package io.extendergateway.policy;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The value of a component of a record of {@linkplain Args args} when the operator does not give
 * it. A component without it is required, unless it is an {@link java.util.Optional}.
 */
@Documented
@Target(ElementType.RECORD_COMPONENT)
@Retention(RetentionPolicy.RUNTIME)
public @interface ArgDefault {
  /** The value as JSON: {@code 3}, {@code true}, {@code "\"text\""}, {@code []}. */
  String value();
}
