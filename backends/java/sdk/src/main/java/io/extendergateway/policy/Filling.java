package io.extendergateway.policy;

import com.google.protobuf.InvalidProtocolBufferException;
import io.extendergateway.policy.v1beta1.ErrorReason;
import io.extendergateway.policy.v1beta1.MapReads;
import io.extendergateway.policy.v1beta1.NodeFacts;
import io.extendergateway.policy.v1beta1.NodeImage;
import io.extendergateway.policy.v1beta1.NodeReads;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.PodCountReads;
import io.extendergateway.policy.v1beta1.PodCounts;
import io.extendergateway.policy.v1beta1.SyncNodesRequest;
import io.extendergateway.policy.v1beta1.TableEntry;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Applies the messages of one stream to its table. Each row is checked here, once per change. */
final class Filling {
  /**
   * The memory of a row besides its bytes: the objects of the decoded message, and its place in the
   * table.
   */
  private static final int ROW_BYTES = 400;

  /** The same for an entry of a map, and for a value, a taint, a count. */
  private static final int ENTRY_BYTES = 110;

  private static final int VALUE_BYTES = 60;

  private final Tables tables;
  private final SharedTexts shared = new SharedTexts();
  private Tables.Table table;
  private Declaration.RowParts parts;
  private Layout.Counts counts;
  private long version;
  private boolean complete;

  Filling(Tables tables) {
    this.tables = tables;
  }

  /** Applies a message whole or not at all, and returns the table's new version. */
  long apply(byte[] encoded) {
    Sizes.check(encoded, Sizes.Shape.SYNC_NODES);
    SyncNodesRequest message;
    try {
      message = SyncNodesRequest.parseFrom(encoded);
    } catch (InvalidProtocolBufferException broken) {
      throw Sizes.broken(broken);
    }
    return apply(message);
  }

  long apply(SyncNodesRequest message) {
    if (table == null) {
      begin(message);
    }
    check(message);
    Map<Integer, Tables.Kept> upserts = new HashMap<>();
    long taken = 0;
    try {
      for (int position = 0; position < message.getUpsertsCount(); position++) {
        TableEntry entry = message.getUpserts(position);
        Tables.Kept kept = kept(position, entry);
        taken += kept.bytes();
        Tables.Kept earlier = upserts.put(entry.getId(), kept);
        if (earlier != null) {
          tables.release(earlier.bytes());
          taken -= earlier.bytes();
        }
      }
    } catch (CallException mistake) {
      tables.release(taken);
      throw mistake;
    }
    version = message.getVersion();
    complete |= message.getComplete();
    tables.release(table.apply(new Tables.Change(version, upserts, message.getRemovedList())));
    return version;
  }

  /** The stream has ended. */
  void end() {
    if (table != null) {
      tables.close(table);
    }
  }

  private void begin(SyncNodesRequest first) {
    checkName(first.getTable());
    if (!first.hasReads()) {
      throw CallException.invalid(
          "reads is missing; the first message of a stream says what its rows contain");
    }
    NodeReads reads = first.getReads();
    checkSize(reads);
    Tables.Table opened = new Tables.Table(first.getTable(), reads);
    tables.open(opened);
    table = opened;
    parts = Declaration.RowParts.of(reads);
    counts = Layout.Counts.of(reads);
  }

  private static void checkName(String name) {
    if (name.isEmpty()) {
      throw CallException.invalid(
          "table is missing; it is a random name, the same in all messages of a stream");
    }
    boolean isPrintable = name.chars().allMatch(character -> character >= ' ' && character <= '~');
    if (name.length() > Limits.TABLE_BYTES || !isPrintable) {
      throw CallException.invalid(
          "table has more than %d characters, or others than printable ASCII", Limits.TABLE_BYTES);
    }
  }

  /** The table keeps its declaration, and no gateway sends more than it accepts from a backend. */
  private static void checkSize(NodeReads reads) {
    if (reads.getPartsCount() > Limits.READ_PARTS) {
      throw CallException.invalid(
          "reads has %d parts; expected at most %d", reads.getPartsCount(), Limits.READ_PARTS);
    }
    if (reads.getPodCountsCount() > Limits.READ_COUNTS) {
      throw CallException.invalid(
          "reads has %d pod_counts; expected at most %d",
          reads.getPodCountsCount(), Limits.READ_COUNTS);
    }
    List<String> keys = new ArrayList<>();
    for (MapReads map : List.of(reads.getLabels(), reads.getAnnotations())) {
      keys.addAll(map.getKeysList());
      keys.addAll(map.getPrefixesList());
    }
    List<String> all = new ArrayList<>(keys);
    reads.getPodCountsList().stream().map(PodCountReads::getLabel).forEach(all::add);
    for (String key : all) {
      int bytes = Utf8.length(key);
      if (bytes > Limits.KEY_BYTES) {
        throw CallException.invalid(
            "reads has a key or prefix of %d bytes; expected at most %d", bytes, Limits.KEY_BYTES);
      }
    }
    if (keys.size() > Limits.READ_KEYS) {
      throw CallException.invalid(
          "reads has %d keys and prefixes; expected at most %d", keys.size(), Limits.READ_KEYS);
    }
  }

  private void check(SyncNodesRequest message) {
    if (!message.getTable().equals(table.name)) {
      throw CallException.invalid(
          "table is not %s, as before; it is the same in all messages of a stream", table.name);
    }
    if (Long.compareUnsigned(message.getVersion(), version) <= 0) {
      throw CallException.invalid(
          "version is %s and was %s; it grows with each message",
          Long.toUnsignedString(message.getVersion()), Long.toUnsignedString(version));
    }
    if (message.getComplete() && complete) {
      throw CallException.invalid("complete is set twice; set it in one message of a stream");
    }
  }

  private Tables.Kept kept(int position, TableEntry entry) {
    if (entry.getId() == 0 || !entry.hasRow()) {
      throw CallException.invalid(
          "upserts[%d].%s is missing; every entry has an id of at least 1 and a row",
          position, entry.getId() == 0 ? "id" : "row");
    }
    Row row = new Row(entry.getRow());
    String wrong = row.wrong(parts, counts, "the table's reads have it");
    if (wrong != null) {
      throw CallException.invalid("upserts[%d].row%s", position, wrong);
    }
    long bytes = memory(row.message);
    if (!tables.take(bytes)) {
      throw CallException.of(
              Status.Code.RESOURCE_EXHAUSTED,
              "the rows of all tables would need more than %d bytes; more are refused"
                  .formatted(tables.maxBytes))
          .because(ErrorReason.ERROR_REASON_OVERLOADED);
    }
    return new Tables.Kept(new Row(shared.in(row.message)), bytes);
  }

  /** The memory of a decoded row; its JSON may be decoded once more, into a model. */
  private static long memory(NodeRow row) {
    NodeFacts facts = row.getFacts();
    long entries =
        0L
            + facts.getLabels().getEntriesCount()
            + facts.getAnnotations().getEntriesCount()
            + facts.getConditionsCount()
            + facts.getCapacity().getOthersCount()
            + facts.getAllocatable().getOthersCount()
            + row.getUsage().getRequested().getOthersCount()
            + row.getNominated().getRequested().getOthersCount();
    long values = 0L + facts.getLabels().getValuesCount() + facts.getAnnotations().getValuesCount();
    values += 3L * facts.getTaintsCount() + 3L * facts.getAddressesCount();
    values += facts.hasSystemInfo() ? 7 : 0;
    for (NodeImage image : facts.getImagesList()) {
      values += 3L + image.getNamesCount();
    }
    for (PodCounts list : row.getPodCountsList()) {
      values += 3L * list.getCountsCount();
    }
    return ROW_BYTES + row.getSerializedSize() + ENTRY_BYTES * entries + VALUE_BYTES * values;
  }
}
