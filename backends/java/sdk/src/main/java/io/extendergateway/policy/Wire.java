package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.WireFormat;
import java.io.IOException;

/** Reads fields of an encoded message that is not decoded. */
final class Wire {
  private static final int CALL = 1;
  private static final int ARGS = 5;

  private Wire() {}

  /** {@code Call.args} of an encoded request of any verb; empty if it cannot be read. */
  static ByteString args(byte[] request) {
    try {
      ByteString call = last(CodedInputStream.newInstance(request), CALL);
      return last(call.newCodedInput(), ARGS);
    } catch (IOException broken) {
      return ByteString.EMPTY;
    }
  }

  private static ByteString last(CodedInputStream input, int field) throws IOException {
    ByteString found = ByteString.EMPTY;
    for (int tag = input.readTag(); tag != 0; tag = input.readTag()) {
      boolean wanted =
          WireFormat.getTagFieldNumber(tag) == field
              && WireFormat.getTagWireType(tag) == WireFormat.WIRETYPE_LENGTH_DELIMITED;
      if (wanted) {
        found = input.readBytes();
      } else {
        input.skipField(tag);
      }
    }
    return found;
  }
}
