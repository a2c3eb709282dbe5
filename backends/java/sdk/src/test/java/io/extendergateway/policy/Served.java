package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.FilterRequest;
import io.extendergateway.policy.v1beta1.FilterResponse;
import io.extendergateway.policy.v1beta1.NodeFacts;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.NodeRows;
import io.extendergateway.policy.v1beta1.Nodes;
import io.extendergateway.policy.v1beta1.PodFacts;
import io.extendergateway.policy.v1beta1.PolicyServiceGrpc;
import io.extendergateway.policy.v1beta1.Purpose;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Map;
import org.junit.jupiter.api.function.Executable;

/** A backend on a socket, and a client of the generated code. */
final class Served implements AutoCloseable {
  static final ServeOptions OPTIONS = ServeOptions.defaults().telemetry(Map.of());

  final PolicyServer server;
  final ManagedChannel channel;
  final PolicyServiceGrpc.PolicyServiceBlockingStub client;

  private Served(Backend backend, ServeOptions options) throws ServeException {
    server = PolicyServer.start(backend, options);
    channel =
        Grpc.newChannelBuilder(server.address(), InsecureChannelCredentials.create())
            .maxInboundMessageSize(64 << 20)
            .build();
    client = PolicyServiceGrpc.newBlockingStub(channel);
  }

  static Served of(Policy policy) throws ServeException {
    return of(Backend.of(policy));
  }

  static Served of(Backend backend) throws ServeException {
    return new Served(backend, OPTIONS);
  }

  static Served of(Backend backend, ServeOptions options) throws ServeException {
    return new Served(backend, options);
  }

  /** A call of a verb that reads nothing. */
  static Call.Builder call() {
    return call(new Reads());
  }

  /** A call of a verb with this declaration. */
  static Call.Builder call(Reads reads) {
    return Call.newBuilder()
        .setId("c1")
        .setPurpose(Purpose.PURPOSE_DECIDE)
        .setGateway("g")
        .setBackend("b")
        .setReads(new Layout(reads).sha256);
  }

  /** A call whose args are sent. */
  static Call.Builder call(ByteString args) {
    return named(args).setArgs(args);
  }

  /** A call that names its args by their digest. */
  static Call.Builder named(ByteString args) {
    return call().setArgsSha256(Sha256.of(args));
  }

  static io.extendergateway.policy.v1beta1.Pod pod() {
    return io.extendergateway.policy.v1beta1.Pod.newBuilder()
        .setFacts(PodFacts.newBuilder().setNamespace("shop"))
        .build();
  }

  static NodeRow row(String name) {
    return NodeRow.newBuilder().setName(name).setFacts(NodeFacts.getDefaultInstance()).build();
  }

  static Nodes inline(NodeRow... rows) {
    NodeRows.Builder all = NodeRows.newBuilder();
    for (NodeRow row : rows) {
      all.addRows(row);
    }
    return Nodes.newBuilder().setCount(rows.length).setRows(all).build();
  }

  /** For a verb that reads nothing. */
  static FilterRequest.Builder about(String... names) {
    NodeRow[] rows = new NodeRow[names.length];
    for (int at = 0; at < rows.length; at++) {
      rows[at] = row(names[at]);
    }
    return FilterRequest.newBuilder().setCall(call()).setPod(pod()).setNodes(inline(rows));
  }

  FilterResponse filter(FilterRequest.Builder request) {
    return client.filter(request.build());
  }

  /** The status of a failed call. */
  static Status failure(Executable call) {
    return assertThrows(StatusRuntimeException.class, call).getStatus();
  }

  /** Which of the errors of its code it is. */
  static String reason(Metadata trailers) {
    return trailers.get(Metadata.Key.of("extender-reason", Metadata.ASCII_STRING_MARSHALLER));
  }

  @Override
  public void close() {
    channel.shutdownNow();
    server.close();
  }
}
