package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.v1alpha1.BeforeFilterNodesRequest;
import io.extendergateway.policy.v1alpha1.BeforeScoreRequest;
import io.extendergateway.policy.v1alpha1.FilterRequest;
import io.extendergateway.policy.v1alpha1.FilterResponse;
import io.extendergateway.policy.v1alpha1.HookServiceGrpc;
import io.extendergateway.policy.v1alpha1.Miss;
import io.extendergateway.policy.v1alpha1.NodeReads;
import io.extendergateway.policy.v1alpha1.NodeRef;
import io.extendergateway.policy.v1alpha1.NodeRow;
import io.extendergateway.policy.v1alpha1.NodeTableServiceGrpc;
import io.extendergateway.policy.v1alpha1.NodeView;
import io.extendergateway.policy.v1alpha1.Nodes;
import io.extendergateway.policy.v1alpha1.SyncNodesRequest;
import io.extendergateway.policy.v1alpha1.SyncNodesResponse;
import io.extendergateway.policy.v1alpha1.TableEntry;
import io.extendergateway.policy.v1alpha1.TableView;
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
  private static final long TABLE = -5;

  /** Rejects each node with its name, and removes a label of that name. */
  private static class Names implements Policy {
    @Override
    public Info info() {
      return Info.of("names", "1")
          .filters(Verb.perNode())
          .beforeFilterNodes(Hook.changing(ChangedPart.NODE_LABELS))
          .beforeScore(Hook.changing(ChangedPart.NODE_LABELS));
    }

    @Override
    public NodeChange beforeFilterNode(Pod pod, Node node) {
      return NodeChange.none().removeLabel(node.name());
    }

    @Override
    public NodeChange beforeScoreNode(Pod pod, Node node) {
      return NodeChange.none().removeLabel(node.name());
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return Verdict.reject(node.name());
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

    Sync(Served served) {
      requests = NodeTableServiceGrpc.newStub(served.channel).syncNodes(this);
    }

    @Override
    public void onNext(SyncNodesResponse response) {
      received.add(response.getApplied());
    }

    @Override
    public void onError(Throwable error) {
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

    Status refused(SyncNodesRequest.Builder message) throws InterruptedException {
      return (Status) send(message);
    }
  }

  private static SyncNodesRequest.Builder first(long version) {
    return SyncNodesRequest.newBuilder()
        .setTable(TABLE)
        .setVersion(version)
        .setView(TableView.newBuilder().setNodeView(NodeView.NODE_VIEW_FACTS));
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

  private static FilterRequest.Builder named(long atLeast, List<Integer> ids, String... inline) {
    NodeRef.Builder form = NodeRef.newBuilder().setTable(TABLE).setAtLeast(atLeast).addAllIds(ids);
    for (String name : inline) {
      form.addRows(Served.row(name));
    }
    return Served.about("x").setNodes(Nodes.newBuilder().setCount(ids.size()).setTable(form));
  }

  private List<String> names(FilterRequest.Builder request) {
    FilterResponse response = served.filter(request);
    assertEquals(Miss.MISS_UNSPECIFIED, response.getResult().getMiss());
    String[] names = new String[response.getResult().getEvaluated()];
    response
        .getRejectionsList()
        .forEach(
            rejection ->
                rejection.getPositionsList().forEach(at -> names[at] = rejection.getReason()));
    return List.of(names);
  }

  private Miss miss(FilterRequest.Builder request) {
    return served.filter(request).getResult().getMiss();
  }

  @Test
  void nodesAreNamedByIdsAndByRowsBetweenThem() throws InterruptedException {
    Sync sync = new Sync(served);
    assertEquals(1L, sync.send(first(1).addUpserts(entry(1, "a")).addUpserts(entry(7, "b"))));
    assertEquals(
        List.of("b", "c", "a", "d", "b"), names(named(1, List.of(7, 0, 1, 0, 7), "c", "d")));
    assertEquals(2L, sync.send(next(2).addUpserts(entry(1, "a2")).addRemoved(7)));
    assertEquals(List.of("a2"), names(named(2, List.of(1))));
    assertEquals(Miss.MISS_TABLE_BEHIND, miss(named(2, List.of(7))));
    assertEquals(Miss.MISS_TABLE_BEHIND, miss(named(3, List.of(1))));
    // A removal wins over an upsert of one message, and the later upsert over the earlier.
    assertEquals(
        3L,
        sync.send(
            next(3)
                .addUpserts(entry(9, "gone"))
                .addUpserts(entry(1, "early"))
                .addUpserts(entry(1, "late"))
                .addRemoved(9)
                .addRemoved(77)));
    assertEquals(List.of("late"), names(named(3, List.of(1))));
    assertEquals(Miss.MISS_TABLE_BEHIND, miss(named(3, List.of(9))));
    sync.requests.onCompleted();
    assertEquals(Status.OK, sync.received.poll(20, TimeUnit.SECONDS));
    assertEquals(Miss.MISS_TABLE_UNKNOWN, miss(named(3, List.of(1))));
  }

  @Test
  void hooksAreAskedAboutNodesOfATable() throws InterruptedException {
    var hooks = HookServiceGrpc.newBlockingStub(served.channel);
    Sync sync = new Sync(served);
    assertEquals(1L, sync.send(first(1).addUpserts(entry(1, "a")).addUpserts(entry(7, "b"))));
    FilterRequest about = named(1, List.of(7, 0, 1), "c").build();
    BeforeFilterNodesRequest.Builder filter =
        BeforeFilterNodesRequest.newBuilder().setCall(about.getCall()).setPod(about.getPod());
    BeforeScoreRequest.Builder score =
        BeforeScoreRequest.newBuilder().setCall(about.getCall()).setPod(about.getPod());
    assertEquals(
        List.of("b", "c", "a"),
        removed(hooks.beforeFilterNodes(filter.setNodes(about.getNodes()).build()).getNodesList()));
    assertEquals(
        List.of("b", "c", "a"),
        removed(hooks.beforeScore(score.setNodes(about.getNodes()).build()).getNodesList()));
    Nodes later = named(2, List.of(1)).getNodes();
    assertEquals(
        Miss.MISS_TABLE_BEHIND,
        hooks.beforeFilterNodes(filter.setNodes(later).build()).getResult().getMiss());
    assertEquals(
        Miss.MISS_TABLE_BEHIND,
        hooks.beforeScore(score.setNodes(later).build()).getResult().getMiss());
  }

  private static List<String> removed(List<io.extendergateway.policy.v1alpha1.NodeChange> changes) {
    return changes.stream().map(change -> change.getRemoveLabels(0)).toList();
  }

  @Test
  void aTableThatIsNotHereIsAMissAndAWrongRequestIsNot() {
    assertEquals(Miss.MISS_TABLE_UNKNOWN, miss(named(1, List.of(1))));
    Status status = Served.failure(() -> served.filter(named(1, List.of(1, 0))));
    assertEquals(Status.Code.INVALID_ARGUMENT, status.getCode());
    assertTrue(status.getDescription().contains("1 zeros and there are 0 rows"));
  }

  @Test
  void mistakesEndTheStreamAndNothingOfTheMessageIsApplied() throws InterruptedException {
    Sync sync = new Sync(served);
    assertEquals(1L, sync.send(first(1).addUpserts(entry(1, "a"))));
    Status status =
        sync.refused(
            next(2)
                .addUpserts(entry(2, "b"))
                .addUpserts(entry(3, NodeRow.newBuilder().setName("c").build())));
    assertEquals(Status.Code.INVALID_ARGUMENT, status.getCode());
    assertEquals(
        "upserts[1].row.facts is missing; the table's view has it", status.getDescription());
    assertEquals(Miss.MISS_TABLE_UNKNOWN, miss(named(1, List.of(1))));

    refused(first(1).clearTable(), "table is missing");
    refused(first(1).clearView(), "view.node_view is missing or unknown");
    refused(first(0), "version is 0 and was 0");
    refused(first(1).addUpserts(entry(0, "a")), "upserts[0].id is missing");
    refused(first(1).addUpserts(TableEntry.newBuilder().setId(1)), "upserts[0].row is missing");
    var reads = NodeReads.newBuilder();
    reads.getLabelsBuilder().addKeys("rack");
    refused(
        first(1)
            .setView(
                TableView.newBuilder()
                    .setNodeView(NodeView.NODE_VIEW_FACTS)
                    .setReads(reads.addPartsValue(6)))
            .addUpserts(entry(1, "a")),
        "upserts[0].row.facts.label_values has 0 values, and 1 keys are declared");
    Sync open = new Sync(served);
    assertEquals(1L, open.send(first(1)));
    refused(first(1), "already has a stream");
    assertTrue(open.refused(next(2).setTable(6)).getDescription().contains("table is 6 and was"));
  }

  private void refused(SyncNodesRequest.Builder message, String text) throws InterruptedException {
    Status status = new Sync(served).refused(message);
    assertEquals(Status.Code.INVALID_ARGUMENT, status.getCode(), status.toString());
    assertTrue(status.getDescription().contains(text), status.toString());
  }

  @Test
  void aTableOfAnotherDeclarationCountsAsNotHeld() throws InterruptedException {
    Sync sync = new Sync(served);
    assertEquals(
        1L,
        sync.send(
            first(1)
                .setView(
                    TableView.newBuilder()
                        .setNodeView(NodeView.NODE_VIEW_FACTS)
                        .setReads(NodeReads.newBuilder().addPartsValue(6)))
                .addUpserts(entry(1, "a"))));
    assertEquals(Miss.MISS_TABLE_UNKNOWN, miss(named(1, List.of(1))));
  }

  @Test
  void aTableOfNamesDoesNotServeFacts() throws InterruptedException {
    Sync sync = new Sync(served);
    var names = TableView.newBuilder().setNodeView(NodeView.NODE_VIEW_NAME);
    assertEquals(1L, sync.send(first(1).setView(names).addUpserts(entry(1, "a"))));
    Status status = Served.failure(() -> served.filter(named(1, List.of(1))));
    assertEquals(
        "nodes.table is a table of View.NAME, and this policy declares View.FACTS",
        status.getDescription());
  }

  @Test
  void tablesAreLimitedInNumberAndBytes() {
    Tables tables = new Tables(1, 3000);
    Filling filling = new Filling(tables);
    assertEquals(1, filling.apply(first(1).addUpserts(entry(1, "a")).build()));
    CallException full =
        assertThrows(
            CallException.class, () -> new Filling(tables).apply(first(1).setTable(6).build()));
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, full.code());
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
  void stoppingEndsTheStreams() throws InterruptedException {
    Sync sync = new Sync(served);
    assertEquals(1L, sync.send(first(1).addUpserts(entry(1, "a"))));
    served.server.close();
    Status status = (Status) sync.received.poll(20, TimeUnit.SECONDS);
    assertEquals(Status.Code.UNAVAILABLE, status.getCode());
  }
}
