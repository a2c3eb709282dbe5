package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.WireFormat;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Reads fields of an encoded message that is not decoded. */
final class Wire {
  private static final int CALL = 1;
  private static final int ARGS = 5;

  private Wire() {}

  /** {@code Call.args} of an encoded request of any verb; empty if it cannot be read. */
  static ByteString args(byte[] request) {
    ByteString args = ByteString.EMPTY;
    try {
      // Protobuf merges a message that occurs several times.
      for (ByteString call : all(CodedInputStream.newInstance(request), CALL)) {
        for (ByteString given : all(call.newCodedInput(), ARGS)) {
          args = given;
        }
      }
    } catch (IOException broken) {
      return ByteString.EMPTY;
    }
    return args;
  }

  private static List<ByteString> all(CodedInputStream input, int field) throws IOException {
    List<ByteString> found = new ArrayList<>(1);
    for (int tag = input.readTag(); tag != 0; tag = input.readTag()) {
      boolean wanted =
          WireFormat.getTagFieldNumber(tag) == field
              && WireFormat.getTagWireType(tag) == WireFormat.WIRETYPE_LENGTH_DELIMITED;
      if (wanted) {
        found.add(input.readBytes());
      } else {
        input.skipField(tag);
      }
    }
    return found;
  }
}
