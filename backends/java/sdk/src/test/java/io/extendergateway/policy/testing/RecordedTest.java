package io.extendergateway.policy.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.Info;
import io.extendergateway.policy.Node;
import io.extendergateway.policy.NodePart;
import io.extendergateway.policy.Pod;
import io.extendergateway.policy.PodPart;
import io.extendergateway.policy.Policy;
import io.extendergateway.policy.Reads;
import io.extendergateway.policy.Verb;
import io.extendergateway.policy.Verdict;
import io.extendergateway.policy.v1beta1.FilterRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Objects in the files that {@code extender-gateway try --objects} writes. */
class RecordedTest {
  @TempDir Path folder;

  /** Says what it reads, and what it does not declare. */
  private record Says(Reads reads) implements Policy {
    @Override
    public Info info() {
      return Info.of("says", "1").filters(Verb.perNode().reads(reads));
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return Verdict.reject(
          pod.name().get() + pod.label("app") + node.label("zone") + node.usage().isPresent());
    }
  }

  private static byte[] objects() {
    var request = FilterRequest.newBuilder();
    var pod = request.getPodBuilder();
    pod.getIdentityBuilder().setName("web-1");
    pod.getFactsBuilder().setNamespace("shop").getLabelsBuilder().putEntries("app", "web");
    for (String name : List.of("n1", "n2")) {
      var row = request.getNodesBuilder().getRowsBuilder().addRowsBuilder().setName(name);
      row.getUsageBuilder().getRequestedBuilder().setPods(1);
      row.getFactsBuilder().getLabelsBuilder().putEntries("zone", name + "-zone");
    }
    request.getNodesBuilder().setCount(2);
    return request.build().toByteArray();
  }

  @Test
  void recordedObjectsAreTestObjects() throws IOException {
    Path file = Files.write(folder.resolve("objects.binpb"), objects());
    Testing.Recorded recorded = Testing.recorded(file);
    Reads reads = new Reads().pod(PodPart.IDENTITY).node(NodePart.USAGE);
    reads.podLabel("app");
    reads.nodeLabel("zone");
    assertEquals(
        List.of(
            new Testing.Rejected("n1", Verdict.reject("web-1Optional[web]Optional[n1-zone]true")),
            new Testing.Rejected("n2", Verdict.reject("web-1Optional[web]Optional[n2-zone]true"))),
        Testing.filter(new Says(reads), recorded.pod(), recorded.nodes()));
    // They have no more than the policy declares.
    var undeclared =
        assertThrows(
            NoAnswerException.class,
            () -> Testing.filter(new Says(new Reads()), recorded.pod(), recorded.nodes()));
    assertTrue(undeclared.getMessage().contains("IDENTITY of the pod"), undeclared.getMessage());
  }

  @Test
  void aBrokenFileIsNamed() throws IOException {
    byte[] all = objects();
    int nodes = FilterRequest.parseFrom(all).getPod().getSerializedSize() + 2;
    for (int length : new int[] {0, nodes, all.length - 1}) {
      Path file = Files.write(folder.resolve("broken.binpb"), Arrays.copyOf(all, length));
      refused(file, length == all.length - 1 ? "ended unexpectedly" : "it has no pod, or not all");
    }
    refused(folder.resolve("absent.binpb"), "it does not exist");
  }

  private static void refused(Path file, String why) {
    String text =
        assertThrows(IllegalArgumentException.class, () -> Testing.recorded(file)).getMessage();
    assertTrue(text.startsWith(file + " is no file of objects: ") && text.contains(why), text);
  }
}
