package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.extendergateway.policy.*;
import io.extendergateway.policy.testing.*;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.Test;

/** A policy with a clock. */
class MaintenanceTest {
  /** Rejects the nodes of a zone from 2 to 4 o'clock. */
  private static final class Maintenance implements Policy {
    private final Reads reads = new Reads();
    private final NodeKey zone = reads.nodeLabel("topology.kubernetes.io/zone");
    private final IntSupplier hour;
    private final boolean isClosed;

    Maintenance(IntSupplier hour) {
      this.hour = hour;
      isClosed = isClosed();
    }

    private boolean isClosed() {
      int now = hour.getAsInt();
      return 2 <= now && now < 4;
    }

    @Override
    public Info info() {
      // What the time decides is in the revision: so the verb is pure.
      return Info.of("maintenance", "1.0.0")
          .revision("1.0.0 closed=" + isClosed)
          .filters(Verb.perNode().pure().reads(reads));
    }

    @Override
    public Policy current() {
      return isClosed() == isClosed ? this : new Maintenance(hour);
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      boolean rejects = isClosed && node.get(zone).filter("a"::equals).isPresent();
      return rejects ? Verdict.reject("zone is in maintenance").unresolvable() : Verdict.accept();
    }
  }

  @Test
  void theZoneIsClosedInItsHours() {
    AtomicInteger hour = new AtomicInteger();
    var nodes = List.of(new TestNode("n").label("topology.kubernetes.io/zone", "a"));
    for (Backend backend :
        List.of(
            Backend.of(new Maintenance(hour::get)),
            Testing.everything(new Maintenance(hour::get)),
            Testing.withArgs(Backend.configured(args -> new Maintenance(hour::get)), "{}"))) {
      for (int now : List.of(1, 2, 3, 4, 2, 1)) {
        hour.set(now);
        boolean closed = now == 2 || now == 3;
        assertEquals(
            closed ? 1 : 0, Testing.filter(backend, new TestPod("shop"), nodes).size(), "" + now);
        assertEquals("1.0.0 closed=" + closed, Testing.info(backend).getRevision());
      }
    }
  }
}
