package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.extendergateway.policy.Verdict;
import io.extendergateway.policy.testing.*;
import java.util.List;
import org.junit.jupiter.api.Test;

class NoArmTest {
  @Test
  void armIsRejected() {
    var nodes = List.of(node("amd64"), node("arm64"));
    var rejected = Testing.filter(new NoArm(), new TestPod("shop"), nodes);
    var verdict = Verdict.reject("arm64 nodes are not in use yet").unresolvable();
    assertEquals(List.of(new Testing.Rejected("arm64", verdict)), rejected);
  }

  private static TestNode node(String arch) {
    return new TestNode(arch).label("kubernetes.io/arch", arch);
  }
}
