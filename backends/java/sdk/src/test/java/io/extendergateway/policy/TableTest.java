package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.v1beta1.FilterResponse;
import io.extendergateway.policy.v1beta1.Miss;
import io.extendergateway.policy.v1beta1.NodeRef;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.NodeTableServiceGrpc;
import io.extendergateway.policy.v1beta1.Nodes;
import io.extendergateway.policy.v1beta1.Result;
import io.extendergateway.policy.v1beta1.SyncNodesRequest;
import io.extendergateway.policy.v1beta1.SyncNodesResponse;
import io.extendergateway.policy.v1beta1.TableEntry;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Tables of nodes over a socket. */
class TableTest {
  private static final String TABLE = "t-5";
  private static final Reads READS = new Reads().node(NodePart.NAME, NodePart.NOMINATED);

  /** Rejects each node with its name and the number of nominated pods. */
  private static class Names implements Policy {
    @Override
    public Info info() {
      return Info.of("names", "1").filters(Verb.perNode().reads(READS));
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      var pods = node.nominated().map(nominated -> nominated.getRequested().getPods());
      return Verdict.reject(node.name() + pods.map(number -> " " + number).orElse(""));
    }
  }

  private Served served;

  @BeforeEach
  void serve() throws ServeException {
    served = Served.of(new Names());
  }

  @AfterEach
  void stop() {
    served.close();
  }

  /** A stream, and what has come back. */
  private static final class Sync implements StreamObserver<SyncNodesResponse> {
    final BlockingQueue<Object> received = new LinkedBlockingQueue<>();
    final StreamObserver<SyncNodesRequest> requests;
    volatile Metadata trailers;

    Sync(Served served) {
      requests = NodeTableServiceGrpc.newStub(served.channel).syncNodes(this);
    }

    @Override
    public void onNext(SyncNodesResponse response) {
      received.add(response.getApplied());
    }

    @Override
    public void onError(Throwable error) {
      trailers = Status.trailersFromThrowable(error);
      received.add(Status.fromThrowable(error));
    }

    @Override
    public void onCompleted() {
      received.add(Status.OK);
    }

    Object send(SyncNodesRequest.Builder message) throws InterruptedException {
      requests.onNext(message.build());
      return received.poll(20, TimeUnit.SECONDS);
    }
  }

  private static SyncNodesRequest.Builder first(long version) {
    return SyncNodesRequest.newBuilder()
        .setTable(TABLE)
        .setVersion(version)
        .setReads(new Layout(READS).rows);
  }

  private static SyncNodesRequest.Builder next(long version) {
    return SyncNodesRequest.newBuilder().setTable(TABLE).setVersion(version);
  }

  private static TableEntry entry(int id, NodeRow row) {
    return TableEntry.newBuilder().setId(id).setRow(row).build();
  }

  private static TableEntry entry(int id, String name) {
    return entry(id, Served.row(name));
  }

  @Test
  void tablesAreLimitedInNumberAndBytes() {
    Tables tables = new Tables(1, 3000);
    Filling filling = new Filling(tables);
    assertEquals(1, filling.apply(first(1).addUpserts(entry(1, "a")).build()));
    CallException full =
        assertThrows(
            CallException.class, () -> new Filling(tables).apply(first(1).setTable("t-6").build()));
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, full.code());
    assertEquals("ERROR_REASON_OVERLOADED", Served.reason(full.trailers()));
    long before = tables.bytes();
    SyncNodesRequest.Builder many = next(2);
    for (int id = 2; id < 20; id++) {
      many.addUpserts(entry(id, "b"));
    }
    CallException large = assertThrows(CallException.class, () -> filling.apply(many.build()));
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, large.code());
    assertEquals(before, tables.bytes());
    assertEquals(3, filling.apply(next(3).addRemoved(1).build()));
    assertEquals(0, tables.bytes());
    assertEquals(4, filling.apply(next(4).addUpserts(entry(3, "c")).build()));
    filling.end();
    assertEquals(0, tables.bytes());
    assertNull(tables.find(TABLE));
  }

  @Test
  void aTableHasAShortAndPrintableName() {
    Tables tables = new Tables();
    for (String wrong : List.of("", "a".repeat(65), "ä", "a\n", "\u007f")) {
      var first = first(1).setTable(wrong).build();
      CallException refused =
          assertThrows(CallException.class, () -> new Filling(tables).apply(first));
      assertEquals(Status.Code.INVALID_ARGUMENT, refused.code());
      assertTrue(refused.getMessage().startsWith("table "), refused.getMessage());
    }
    String longest = "~ ".repeat(32);
    Filling filling = new Filling(tables);
    assertEquals(1, filling.apply(first(1).setTable(longest).build()));
    CallException other =
        assertThrows(CallException.class, () -> filling.apply(next(2).setTable("t").build()));
    assertEquals(Status.Code.INVALID_ARGUMENT, other.code());
    assertEquals(2, filling.apply(next(2).setTable(longest).build()));
  }

  private FilterResponse filterByTable() {
    var byTable =
        Nodes.newBuilder().setCount(1).setTable(NodeRef.newBuilder().setTable(TABLE).addIds(1));
    return served.filter(Served.about("a").setCall(Served.call(READS)).setNodes(byTable));
  }

  private void assertIsNotHeld(FilterResponse response) {
    Result miss = Result.newBuilder().setMiss(Miss.MISS_TABLE_UNKNOWN).build();
    assertEquals(FilterResponse.newBuilder().setResult(miss).build(), response);
  }

  @Test
  void aTableThatIsNotHeldIsAMiss() throws InterruptedException {
    assertIsNotHeld(filterByTable());
    NodeRow.Builder row = Served.row("a").toBuilder();
    row.getNominatedBuilder().getRequestedBuilder().setPods(2);
    new Sync(served).send(first(1).addUpserts(entry(1, row.build())));
    assertEquals("a 2", filterByTable().getRejections(0).getReason());
  }

  @Test
  void aTableOfAnotherDeclarationIsAMiss() throws InterruptedException {
    var everything = new Layout(Reads.everything()).rows;
    new Sync(served).send(first(1).setReads(everything).addUpserts(entry(1, "a")));
    assertIsNotHeld(filterByTable());
  }

  @Test
  void theFirstMessageSaysWhatRowsContain() {
    refused(first(1).clearReads(), "reads is missing; the first message");
    TableEntry withoutFacts = entry(1, Served.row("a").toBuilder().clearFacts().build());
    refused(first(1).addUpserts(withoutFacts), "upserts[0].row.facts is missing;");
    refused(first(1).addUpserts(entry(1, "")), "upserts[0].row.name is missing;");
    Reads labels = new Reads();
    labels.nodeLabel("a");
    refused(
        first(1).setReads(new Layout(labels).rows).addUpserts(entry(1, "a")),
        "upserts[0].row.facts.labels.values has 0 values, and 1 keys are declared");
    // A table of names, which no gateway fills, needs no facts.
    var names = new Layout(new Reads().node(NodePart.NAME)).rows;
    SyncNodesRequest.Builder ofNames = first(1).setReads(names).addUpserts(withoutFacts);
    assertEquals(1, new Filling(new Tables()).apply(ofNames.build()));
  }

  private static void refused(SyncNodesRequest.Builder first, String text) {
    CallException refused =
        assertThrows(CallException.class, () -> new Filling(new Tables()).apply(first.build()));
    assertEquals(Status.Code.INVALID_ARGUMENT, refused.code());
    assertTrue(refused.getMessage().startsWith(text), refused.getMessage());
  }

  @Test
  void countsAreInTheOrderOfTheirBytes() {
    // In UTF-16 the second one is less.
    for (String second : List.of("b", "\ud83d\ude00")) {
      String first = second.equals("b") ? "a" : "\ue000";
      NodeRow.Builder row = NodeRow.newBuilder();
      var counts = row.addPodCountsBuilder();
      counts.addCountsBuilder().setValue(first);
      counts.addCountsBuilder().setValue(second).setPods(7);
      var parts = new Declaration.RowParts(false, false);
      Row ordered = new Row(row.build());
      assertNull(ordered.wrong(parts, new Layout.Counts(0, 0, 1), ""));
      var found = ordered.find(counts.build(), new PodsBy.Attribute("", second));
      assertEquals(7, found.getPods());
    }
  }

  @Test
  void stoppingEndsTheStreams() throws InterruptedException {
    Sync sync = new Sync(served);
    assertEquals(1L, sync.send(first(1).addUpserts(entry(1, "a"))));
    served.server.close();
    Status status = (Status) sync.received.poll(20, TimeUnit.SECONDS);
    assertEquals(Status.Code.UNAVAILABLE, status.getCode());
    assertEquals("ERROR_REASON_NOT_READY", Served.reason(sync.trailers));
  }
}
