package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Verdicts as values. */
class VerdictTest {
  private static final Verdict REJECT = Verdict.reject("closed");

  @Test
  void aWaitIsSentInWholeSeconds() {
    Map<Duration, Integer> cases =
        Map.of(
            Duration.ofMillis(-1),
            0,
            Duration.ofSeconds(Long.MIN_VALUE),
            0,
            Duration.ZERO,
            0,
            Duration.ofNanos(1),
            1,
            Duration.ofSeconds(1),
            1,
            Duration.ofMillis(59_001),
            60,
            Duration.ofSeconds(0xFFFF_FFFEL, 1),
            -1,
            Duration.ofSeconds(Long.MAX_VALUE, 999_999_999),
            -1);
    cases.forEach(
        (wait, unsigned) ->
            assertEquals(unsigned, REJECT.retryAfter(wait).retryAfterSeconds().get(), "" + wait));
    assertEquals("reject(closed, retry after 60 s)", "" + REJECT.retryAfter(Duration.ofMinutes(1)));
  }

  @Test
  void aWaitIsAPartOfARejection() {
    Verdict later = REJECT.retryAfter(Duration.ofMinutes(1)).byRule("hours").unresolvable();
    assertEquals(60, later.retryAfterSeconds().get());
    assertNotEquals(REJECT, REJECT.retryAfter(Duration.ZERO));
    assertSame(Verdict.accept(), Verdict.accept().retryAfter(Duration.ofMinutes(1)));
  }
}
