package io.extendergateway.policy;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.extendergateway.policy.v1beta1.NodeRows;
import io.extendergateway.policy.v1beta1.Nodes;
import java.io.IOException;

/** A request, decoded but for its inline rows, if they are in one place of it. */
final class Asked {
  final Message request;

  /** The whole request. */
  final byte[] encoded;

  /** Where its rows are; {@code null} if they are decoded, or there are none. */
  final Wire.Range rows;

  private Asked(Message request, byte[] encoded, Wire.Range rows) {
    this.request = request;
    this.encoded = encoded;
    this.rows = rows;
  }

  /** A request that is decoded already. */
  static Asked of(Message request) {
    return new Asked(request, null, null);
  }

  /** Decodes a request of this type, unless it is too large. */
  static Asked decode(byte[] message, Sizes.Shape shape, Message type) {
    Sizes.check(message, shape);
    try {
      return decode(message, type);
    } catch (IOException broken) {
      throw Sizes.broken(broken);
    }
  }

  private static Asked decode(byte[] message, Message type) throws IOException {
    FieldDescriptor field = type.getDescriptorForType().findFieldByNumber(Questions.NODES);
    Wire.Range nodes = Wire.only(message, Wire.Range.of(message), Questions.NODES);
    boolean hasNodes = nodes != null && field.getJavaType() == FieldDescriptor.JavaType.MESSAGE;
    Wire.Range rows = hasNodes ? Wire.only(message, nodes, Nodes.ROWS_FIELD_NUMBER) : null;
    if (rows == null) {
      return of(type.getParserForType().parseFrom(message));
    }
    Nodes others =
        Nodes.newBuilder()
            .mergeFrom(message, nodes.from(), rows.tag() - nodes.from())
            .setRows(NodeRows.getDefaultInstance())
            .mergeFrom(message, rows.to(), nodes.to() - rows.to())
            .build();
    Message request =
        type.newBuilderForType()
            .mergeFrom(message, 0, nodes.tag())
            .mergeFrom(message, nodes.to(), message.length - nodes.to())
            .setField(field, others)
            .build();
    return new Asked(request, message, rows);
  }
}
