package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.InvalidProtocolBufferException;
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
      for (Range call : all(request, Range.of(request), Questions.CALL)) {
        args = last(request, call, ARGS, args);
        sha256 = last(request, call, ARGS_SHA256, sha256);
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

  /** Where a field is: its tag, and its value. */
  record Range(int tag, int from, int to) {
    static Range of(byte[] message) {
      return new Range(0, 0, message.length);
    }

    int length() {
      return to - from;
    }
  }

  /** The one occurrence of a field of the message there; {@code null} if it has none or several. */
  static Range only(byte[] bytes, Range message, int field) throws IOException {
    List<Range> found = all(bytes, message, field);
    return found.size() == 1 ? found.get(0) : null;
  }

  /** All occurrences of a field that has a length, of the message there. */
  static List<Range> all(byte[] bytes, Range message, int field) throws IOException {
    CodedInputStream input = CodedInputStream.newInstance(bytes, message.from, message.length());
    List<Range> found = new ArrayList<>(1);
    int at = message.from;
    for (int tag = input.readTag(); tag != 0; tag = input.readTag()) {
      if (tag == (field << 3 | WireFormat.WIRETYPE_LENGTH_DELIMITED)) {
        int length = input.readRawVarint32();
        int from = message.from + input.getTotalBytesRead();
        input.skipRawBytes(length);
        found.add(new Range(at, from, from + length));
      } else if (!input.skipField(tag)) {
        throw new InvalidProtocolBufferException("a group ends that has not begun");
      }
      at = message.from + input.getTotalBytesRead();
    }
    return found;
  }

  private static ByteString last(byte[] bytes, Range message, int field, ByteString absent)
      throws IOException {
    List<Range> given = all(bytes, message, field);
    if (given.isEmpty()) {
      return absent;
    }
    Range last = given.get(given.size() - 1);
    return ByteString.copyFrom(bytes, last.from, last.length());
  }
}
