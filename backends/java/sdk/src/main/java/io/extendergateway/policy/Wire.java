package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.WireFormat;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Reads fields of an encoded message that is not decoded. */
final class Wire {
  private static final int ARGS = 5;
  private static final int ARGS_SHA256 = 8;
  private static final int HOOK_TAG = Questions.HOOK << 3 | WireFormat.WIRETYPE_VARINT;

  private Wire() {}

  /** The args that an encoded request of any verb names; none if it cannot be read. */
  static NamedArgs args(byte[] request) {
    ByteString args = ByteString.EMPTY;
    ByteString sha256 = ByteString.EMPTY;
    try {
      // Protobuf merges a message that occurs several times.
      for (ByteString call : all(CodedInputStream.newInstance(request), Questions.CALL)) {
        args = last(call, ARGS, args);
        sha256 = last(call, ARGS_SHA256, sha256);
      }
    } catch (IOException broken) {
      return NamedArgs.NONE;
    }
    return NamedArgs.of(args, sha256);
  }

  /** {@code ChangeRequest.hook} of an encoded request; 0 if it cannot be read. */
  static int hook(byte[] request) {
    int hook = 0;
    try {
      CodedInputStream input = CodedInputStream.newInstance(request);
      for (int tag = input.readTag(); tag != 0; tag = input.readTag()) {
        if (tag == HOOK_TAG) {
          hook = input.readEnum();
        } else {
          input.skipField(tag);
        }
      }
    } catch (IOException broken) {
      return 0;
    }
    return hook;
  }

  private static ByteString last(ByteString message, int field, ByteString absent)
      throws IOException {
    List<ByteString> given = all(message.newCodedInput(), field);
    return given.isEmpty() ? absent : given.get(given.size() - 1);
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
