package io.extendergateway.policy;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The numbers that a component of a record of {@linkplain Args args} may have, both included. */
@Documented
@Target(ElementType.RECORD_COMPONENT)
@Retention(RetentionPolicy.RUNTIME)
public @interface ArgRange {
  /** The least one. */
  long min() default Long.MIN_VALUE;

  /** The largest one. */
  long max() default Long.MAX_VALUE;
}
