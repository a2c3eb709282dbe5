package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.PodCounts;
import io.extendergateway.policy.v1beta1.Resources;
import java.io.IOException;
import java.util.Map;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;

class KnownRowsTest {
  private static final long MOST = 32_000_000;

  /** What each byte of a row can make the largest: each adds one more. */
  private static final Map<String, BiConsumer<NodeRow.Builder, Integer>> WORST =
      Map.of(
          "images", (row, at) -> row.getFactsBuilder().addImagesBuilder().addNames(""),
          "conditions", (row, at) -> row.getFactsBuilder().putConditions(key(at), key(at)),
          "texts", (row, at) -> row.getFactsBuilder().setProviderId("\u0101" + "a".repeat(at)),
          "numbers", (row, at) -> row.getFactsBuilder().getLabelsBuilder().addAbsent(at % 128),
          "counts", (row, at) -> row.addPodCounts(counts()),
          "requests", (row, at) -> counted(row).addCountsBuilder().setRequested(resources()),
          "unknown", (row, at) -> row.mergeUnknownFields(unknown(at + 100)));

  private static String key(int at) {
    return Character.toString('0' + at);
  }

  /** A map with an entry of no bytes, which the library does not write. */
  private static Resources resources() {
    var entry = UnknownFieldSet.Field.newBuilder().addLengthDelimited(ByteString.EMPTY).build();
    int others = Resources.OTHERS_FIELD_NUMBER;
    return Resources.newBuilder()
        .setUnknownFields(UnknownFieldSet.newBuilder().addField(others, entry).build())
        .build();
  }

  private static PodCounts counts() {
    var counts = PodCounts.newBuilder();
    counts.addCountsBuilder().setRequested(resources());
    return counts.build();
  }

  private static PodCounts.Builder counted(NodeRow.Builder row) {
    return row.getPodCountsCount() == 0 ? row.addPodCountsBuilder() : row.getPodCountsBuilder(0);
  }

  private static UnknownFieldSet unknown(int number) {
    var one = UnknownFieldSet.Field.newBuilder().addVarint(1).build();
    return UnknownFieldSet.newBuilder().addField(number, one).build();
  }

  private final ByteString reads = Sha256.of(ByteString.EMPTY);

  private Row kept(KnownRows known, NodeRow.Builder row, ByteString read) throws IOException {
    byte[] bytes = row.build().toByteArray();
    known.keep(read, bytes, new Row(Questions.ROW.parseFrom(bytes)));
    return known.find(read, bytes, Wire.Range.of(bytes));
  }

  /** The largest row that is kept. */
  private NodeRow largest(BiConsumer<NodeRow.Builder, Integer> more) throws IOException {
    NodeRow.Builder row = NodeRow.newBuilder().setName("12345");
    NodeRow largest = row.build();
    for (int at = 0; kept(new KnownRows(), row, reads) != null; at++) {
      largest = row.build();
      more.accept(row, at);
    }
    return largest;
  }

  private static long used() {
    System.gc();
    return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
  }

  @Test
  void whateverRowsHaveTheyTakeLessThan32Megabytes() throws IOException {
    long most = 0;
    for (var worst : WORST.entrySet()) {
      NodeRow.Builder row = largest(worst.getValue()).toBuilder();
      long before = used();
      KnownRows known = new KnownRows();
      for (int at = 0; at < 3 * KnownRows.SLOTS; at++) {
        // Of several verbs.
        kept(known, row.setName("" + at), Sha256.of(ByteString.copyFrom(new byte[at % 7])));
      }
      long taken = used() - before;
      assertTrue(taken < MOST, () -> worst.getKey() + " take " + taken);
      // Read after the measurement: they were not garbage then.
      assertNotNull(kept(known, row, reads));
      most = Math.max(most, taken);
    }
    // The estimate is not several times as much as what it bounds.
    assertTrue(most > MOST / 2, "rows take " + most);
  }

  @Test
  void mostOfTwoThousandNodesAreKnown() throws IOException {
    KnownRows known = new KnownRows();
    for (int round = 0; round < 2; round++) {
      for (int at = 0; at < 2000; at++) {
        kept(known, NodeRow.newBuilder().setName("node-" + at), reads);
      }
    }
    int found = 0;
    for (int at = 0; at < 2000; at++) {
      byte[] row = NodeRow.newBuilder().setName("node-" + at).build().toByteArray();
      found += known.find(reads, row, Wire.Range.of(row)) == null ? 0 : 1;
    }
    assertTrue(found > 1600, found + " are known");
  }

  @Test
  void aRowIsKnownToWhatReadsTheSame() throws IOException {
    KnownRows known = new KnownRows();
    NodeRow.Builder row = NodeRow.newBuilder().setName("n");
    Row found = kept(known, row, reads);
    byte[] bytes = row.build().toByteArray();
    assertEquals(row.build(), found.message);
    assertNull(known.find(Sha256.of(reads), bytes, Wire.Range.of(bytes)));
    assertNull(kept(known, row.setRawJson(ByteString.copyFromUtf8("{}")), reads));
  }
}
