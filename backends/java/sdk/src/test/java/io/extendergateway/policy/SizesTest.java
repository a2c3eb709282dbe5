package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.UnknownFieldSet;
import io.extendergateway.policy.Declaration.Kind;
import io.extendergateway.policy.v1beta1.HookServiceGrpc;
import io.extendergateway.policy.v1beta1.NodeTableServiceGrpc;
import io.extendergateway.policy.v1beta1.PolicyServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import java.util.Collections;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Messages that decode to much more memory than their bytes, over a socket. */
class SizesTest {
  private static final Policy EVERYTHING =
      new Declaring(
          Info.of("everything", "1")
              .filters(Verb.perNode())
              .scores(Verb.perNode(), Scale.unbounded())
              .preempts(Verb.perNode())
              .binds()
              .beforeFilter(Hook.changes(ChangedPart.POD_LABELS))
              .beforeFilterNodes(Hook.changes(ChangedPart.NODE_LABELS))
              .beforeScore(Hook.changes(ChangedPart.NODE_LABELS)));

  @Test
  void aMessageThatWouldTakeTooMuchMemoryIsRefused() throws ServeException {
    try (Served served = Served.of(EVERYTHING)) {
      for (Kind kind : Kind.values()) {
        String method = kind.isHook() ? Kind.HOOK_METHOD : kind.method;
        for (FieldDescriptor field : kind.request.getDescriptorForType().getFields()) {
          int at = field.getNumber();
          switch (field.getName()) {
            case "pod" -> refused(served, method, at, 2, 8);
            case "nodes" -> {
              refused(served, method, at, 2, 1, 2, 3);
              refused(served, method, at, 3, 4, 2, 3);
            }
            case "candidates" -> refused(served, method, at, 1, 2, 2, 8);
            default -> {}
          }
        }
      }
      refused(served, "SyncNodes", 4, 2, 2, 3);
    }
  }

  @Test
  void emptyPartsOfPodsAndNodesTakeMemory() {
    for (int[] path :
        new int[][] {{20}, {21, 1}, {21, 2, 2}, {21, 3}, {21, 4, 2, 1, 2}, {22}, {22, 4, 2}}) {
      refused(Sizes.Shape.QUESTION, within(path, Questions.POD, 2));
    }
    refused(Sizes.Shape.SYNC_NODES, 4, 2, 2, 14);
    refused(Sizes.Shape.SYNC_NODES, 4, 2, 6, 1, 5);
    refused(Sizes.Shape.REPORT, 2);
  }

  private static int[] within(int[] path, int... outer) {
    return IntStream.concat(IntStream.of(outer), IntStream.of(path)).toArray();
  }

  /** Not over a socket: a client sends no key twice. */
  @Test
  void entriesOfLabelsAndAnnotationsTakeMemory() {
    for (int map : new int[] {18, 19}) {
      refused(Sizes.Shape.QUESTION, Questions.POD, 2, map, 3);
    }
    for (int map : new int[] {12, 13}) {
      refused(Sizes.Shape.QUESTION, Questions.NODES, 2, 1, 2, map, 3);
      refused(Sizes.Shape.SYNC_NODES, 4, 2, 2, map, 3);
    }
  }

  private static void refused(Sizes.Shape shape, int... path) {
    byte[] message = nested(path).toByteArray();
    CallException refused = assertThrows(CallException.class, () -> Sizes.check(message, shape));
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, refused.code());
  }

  /** Empty messages in the last of these fields, each of which is in the one before. */
  private static ByteString nested(int... path) {
    var empty = UnknownFieldSet.Field.newBuilder();
    Collections.nCopies(200_000, ByteString.EMPTY).forEach(empty::addLengthDelimited);
    UnknownFieldSet message =
        UnknownFieldSet.newBuilder().addField(path[path.length - 1], empty.build()).build();
    for (int at = path.length - 2; at >= 0; at--) {
      var outer = UnknownFieldSet.Field.newBuilder().addLengthDelimited(message.toByteString());
      message = UnknownFieldSet.newBuilder().addField(path[at], outer.build()).build();
    }
    return message.toByteString();
  }

  private static void refused(Served served, String name, int... path) {
    MethodDescriptor<Object, Object> method = method(name);
    Object request = method.parseRequest(nested(path).newInput());
    Status status =
        Served.failure(
            () ->
                ClientCalls.blockingUnaryCall(
                    served.channel, method, CallOptions.DEFAULT, request));
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, status.getCode(), name + ": " + status);
    assertTrue(status.getDescription().contains("would take more than"), status.toString());
  }

  @SuppressWarnings("unchecked")
  private static MethodDescriptor<Object, Object> method(String name) {
    return (MethodDescriptor<Object, Object>)
        Stream.of(
                PolicyServiceGrpc.getServiceDescriptor(),
                HookServiceGrpc.getServiceDescriptor(),
                NodeTableServiceGrpc.getServiceDescriptor())
            .flatMap(service -> service.getMethods().stream())
            .filter(method -> name.equals(method.getBareMethodName()))
            .findFirst()
            .orElseThrow();
  }
}
