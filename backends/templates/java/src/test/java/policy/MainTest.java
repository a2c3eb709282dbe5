package policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.Verdict;
import io.extendergateway.policy.testing.TestNode;
import io.extendergateway.policy.testing.TestPod;
import io.extendergateway.policy.testing.Testing;
import java.util.List;
import org.junit.jupiter.api.Test;

class MainTest {
  @Test
  void nodesOfClosedZonesAreRejected() {
    var policy = Testing.withArgs(Main.backend(), "{\"label\": \"zone\", \"closed\": [\"a\"]}");
    var nodes =
        List.of(
            new TestNode("n1").label("zone", "a"),
            new TestNode("n2").label("zone", "b"),
            new TestNode("n3"));
    var verdict = Verdict.reject("zone is closed").unresolvable();
    var rejected = Testing.filter(policy, new TestPod("shop"), nodes);
    assertEquals(List.of(new Testing.Rejected("n1", verdict)), rejected);
  }

  @Test
  void wrongArgsAreNamed() {
    var wrong = "{\"label\": \"zone\", \"close\": [\"a\"]}";
    var error = assertThrows(RuntimeException.class, () -> Testing.withArgs(Main.backend(), wrong));
    assertTrue(error.getMessage().contains("close"), error.getMessage());
  }
}
