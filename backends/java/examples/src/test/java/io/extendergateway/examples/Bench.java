package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.Backend;
import io.extendergateway.policy.PolicyServer;
import io.extendergateway.policy.ServeOptions;
import io.extendergateway.policy.v1alpha1.Call;
import io.extendergateway.policy.v1alpha1.FilterRequest;
import io.extendergateway.policy.v1alpha1.GetInfoRequest;
import io.extendergateway.policy.v1alpha1.NodeFacts;
import io.extendergateway.policy.v1alpha1.NodeRef;
import io.extendergateway.policy.v1alpha1.NodeRow;
import io.extendergateway.policy.v1alpha1.NodeRows;
import io.extendergateway.policy.v1alpha1.NodeTableServiceGrpc;
import io.extendergateway.policy.v1alpha1.NodeView;
import io.extendergateway.policy.v1alpha1.Nodes;
import io.extendergateway.policy.v1alpha1.OwnerReference;
import io.extendergateway.policy.v1alpha1.Pod;
import io.extendergateway.policy.v1alpha1.PodCount;
import io.extendergateway.policy.v1alpha1.PodCounts;
import io.extendergateway.policy.v1alpha1.PodFacts;
import io.extendergateway.policy.v1alpha1.PolicyServiceGrpc;
import io.extendergateway.policy.v1alpha1.Purpose;
import io.extendergateway.policy.v1alpha1.Reads;
import io.extendergateway.policy.v1alpha1.Resources;
import io.extendergateway.policy.v1alpha1.SyncNodesRequest;
import io.extendergateway.policy.v1alpha1.SyncNodesResponse;
import io.extendergateway.policy.v1alpha1.TableEntry;
import io.extendergateway.policy.v1alpha1.TableView;
import io.extendergateway.policy.v1alpha1.Taint;
import io.extendergateway.policy.v1alpha1.Toleration;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.stub.StreamObserver;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** How long a call about 500 nodes takes, round trip included; run by {@code make bench}. */
class Bench {
  private static final int NODES = 500;
  private static final int CALLS = 4000;
  private static final double MOST_MICROSECONDS = 1500;

  @Test
  void aCallIsFastEnough() throws Exception {
    Backend backend = Backend.configured(Reference.Args.class, Reference::new);
    ByteString args = ByteString.copyFromUtf8("{\"zone\":\"z0\"}");
    try (PolicyServer server =
        PolicyServer.start(backend, ServeOptions.defaults().telemetry(Map.of()))) {
      ManagedChannel channel =
          Grpc.newChannelBuilder(server.address(), InsecureChannelCredentials.create()).build();
      var client = PolicyServiceGrpc.newBlockingStub(channel);
      Reads reads =
          client.getInfo(GetInfoRequest.newBuilder().setArgs(args).build()).getVerbs(0).getReads();
      fill(channel, reads);
      NodeRef.Builder ref = NodeRef.newBuilder().setTable(9).setAtLeast(1);
      NodeRows.Builder rows = NodeRows.newBuilder();
      for (int id = 1; id <= NODES; id++) {
        ref.addIds(id);
        rows.addRows(row(id));
      }
      FilterRequest.Builder request =
          FilterRequest.newBuilder()
              .setCall(
                  Call.newBuilder()
                      .setId("bench")
                      .setPurpose(Purpose.PURPOSE_DECIDE)
                      .setArgs(args)
                      .setReads(reads.getId()))
              .setPod(pod());
      FilterRequest byTable =
          request.setNodes(Nodes.newBuilder().setCount(NODES).setTable(ref)).build();
      double table = median(client, byTable);
      FilterRequest withScores = request.setWantScores(true).build();
      double scores = median(client, withScores);
      FilterRequest inline =
          request
              .setWantScores(false)
              .setNodes(Nodes.newBuilder().setCount(NODES).setRows(rows))
              .build();
      double sent = median(client, inline);
      System.out.printf(
          "%d nodes: %.0f µs by table, %.0f µs by table with scores, %.0f µs inline%n",
          NODES, table, scores, sent);
      assertTrue(table < MOST_MICROSECONDS, table + " µs");
      channel.shutdownNow();
    }
  }

  private static double median(
      PolicyServiceGrpc.PolicyServiceBlockingStub client, FilterRequest request) {
    long[] times = new long[CALLS];
    for (int at = 0; at < CALLS; at++) {
      long begin = System.nanoTime();
      assertEquals(NODES, client.filter(request).getResult().getEvaluated());
      times[at] = System.nanoTime() - begin;
    }
    // The first half warms up.
    long[] warm = Arrays.copyOfRange(times, CALLS / 2, CALLS);
    Arrays.sort(warm);
    return warm[warm.length / 2] / 1e3;
  }

  private static void fill(ManagedChannel channel, Reads reads) throws InterruptedException {
    CountDownLatch applied = new CountDownLatch(1);
    StreamObserver<SyncNodesRequest> stream =
        NodeTableServiceGrpc.newStub(channel)
            .syncNodes(
                new StreamObserver<>() {
                  @Override
                  public void onNext(SyncNodesResponse response) {
                    applied.countDown();
                  }

                  @Override
                  public void onError(Throwable error) {}

                  @Override
                  public void onCompleted() {}
                });
    SyncNodesRequest.Builder message =
        SyncNodesRequest.newBuilder()
            .setTable(9)
            .setVersion(1)
            .setView(
                TableView.newBuilder()
                    .setNodeView(NodeView.NODE_VIEW_FACTS)
                    .setReads(reads.getNode()));
    for (int id = 1; id <= NODES; id++) {
      message.addUpserts(TableEntry.newBuilder().setId(id).setRow(row(id)));
    }
    stream.onNext(message.build());
    assertTrue(applied.await(5, TimeUnit.SECONDS));
  }

  private static NodeRow row(int number) {
    NodeFacts.Builder facts =
        NodeFacts.newBuilder()
            .addLabelValues("z" + number % 5)
            .setAllocatable(
                Resources.newBuilder().setMilliCpu(1000L * (number % 32)).setMemory(1L << 36));
    if (number % 3 == 0) {
      facts.addTaints(Taint.newBuilder().setKey("team").setValue("a").setEffect("NoSchedule"));
    }
    PodCounts.Builder counts = PodCounts.newBuilder();
    for (int owner = 0; owner < 20; owner++) {
      counts.addCounts(
          PodCount.newBuilder()
              .setValue("9c858901-8a57-4791-81fe-4c455b0%05d".formatted(owner * 7 + number % 7))
              .setPods(1 + number % 4));
    }
    return NodeRow.newBuilder()
        .setName("node-" + number)
        .setFacts(facts)
        .addPodCounts(counts)
        .build();
  }

  private static Pod pod() {
    return Pod.newBuilder()
        .setFacts(
            PodFacts.newBuilder()
                .setRequests(Resources.newBuilder().setMilliCpu(500).setPods(1))
                .setOwner(
                    OwnerReference.newBuilder().setUid("9c858901-8a57-4791-81fe-4c455b000021"))
                .addTolerations(Toleration.newBuilder().setKey("team").setOperator("Exists"))
                .addLabelValues("z1"))
        .build();
  }
}
