package io.extendergateway.policy;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.WireFormat;
import io.extendergateway.policy.v1beta1.ErrorReason;
import io.grpc.Status;
import java.io.IOException;
import java.util.List;

/**
 * Estimates the memory of a message before it is decoded: an empty message of two bytes on the wire
 * becomes an object of a hundred bytes and more. The shapes name the parts that take more than a
 * small multiple of their bytes.
 */
final class Sizes {
  /** What every message may take, whatever its length: enough for thousands of small rows. */
  private static final long BASE = 8 << 20;

  /** What a message may take per byte. */
  private static final long PER_BYTE = 32;

  /** A large preemption: 1,500 candidates with thirty victims each. */
  private static final long MOST =
      Math.min(4L * PolicyServer.MAX_MESSAGE_BYTES, Runtime.getRuntime().maxMemory() / 2);

  /** A text, and its place in a list. */
  private static final int TEXT = 16;

  /** Two texts and an entry of a map. */
  private static final int ENTRY = 160;

  /** A list of texts or small messages that is not empty, besides these. */
  private static final int LIST = 72;

  /** A small message, and its place in a list. */
  private static final int SMALL = 72;

  /** A row with facts, the view of it, and the policy's answer. */
  private static final int ROW = 320;

  /** A row of the table that is found, and the policy's answer. */
  private static final int FOUND = 64;

  private static final int POD_MESSAGE = 280;

  /** An outcome as the policy gets it. */
  private static final int OUTCOME = 64;

  private Sizes() {}

  /** A field of a message, and the memory of each occurrence besides its own bytes. */
  private record Part(int field, int bytes, boolean isNumbers, String element, List<Part> shape) {}

  private static Part part(int field, int bytes, Part... shape) {
    return new Part(field, bytes, false, null, List.of(shape));
  }

  private static Part numbers(int field, int bytes) {
    return new Part(field, bytes, true, null, List.of());
  }

  /** An element that is invalid if it is empty: the name is that of its list. */
  private static Part element(int field, int bytes, String name, Part... shape) {
    return new Part(field, bytes, false, name, List.of(shape));
  }

  private static final Part[] RESOURCES = {part(5, ENTRY)};

  private static final Part[] MAP_VALUES = {part(1, TEXT), numbers(2, 4), part(3, ENTRY)};

  private static final Part[] IMAGE = {part(1, TEXT)};

  private static final Part[] NODE_ROW = {
    part(
        2,
        0,
        part(3, SMALL + 3 * TEXT),
        part(5, ENTRY),
        part(6, SMALL, RESOURCES),
        part(7, SMALL, RESOURCES),
        part(12, SMALL, MAP_VALUES),
        part(13, SMALL, MAP_VALUES),
        part(14, SMALL + LIST, IMAGE),
        part(16, SMALL)),
    part(4, 0, part(1, SMALL, RESOURCES)),
    part(5, SMALL, part(1, SMALL + 2 * TEXT, part(5, SMALL, RESOURCES))),
    part(6, 0, part(1, SMALL, RESOURCES))
  };

  private static final Part[] REQUIREMENT = {part(3, TEXT)};
  private static final Part[] TERM = {
    part(1, SMALL + TEXT, REQUIREMENT), part(2, SMALL + TEXT, REQUIREMENT)
  };

  private static final Part[] SELECTOR = {part(1, ENTRY), part(2, SMALL + LIST, REQUIREMENT)};
  private static final Part[] POD_TERM = {
    part(1, SMALL, SELECTOR), part(2, TEXT), part(3, SMALL, SELECTOR), part(5, TEXT), part(6, TEXT)
  };
  private static final Part[] WEIGHTED_POD_TERM = {part(2, SMALL + 3 * LIST, POD_TERM)};

  private static final Part[] POD = {
    part(1, 0, part(3, TEXT)),
    part(
        2,
        0,
        part(7, SMALL, RESOURCES),
        part(8, SMALL + 3 * TEXT),
        part(9, ENTRY),
        part(10, SMALL + TEXT),
        part(12, 0, part(1, 0, part(1, SMALL, TERM)), part(2, SMALL, part(2, SMALL, TERM))),
        part(18, SMALL, MAP_VALUES),
        part(19, SMALL, MAP_VALUES),
        part(20, SMALL + LIST, part(4, SMALL)),
        part(
            21,
            0,
            part(1, SMALL + 3 * LIST, POD_TERM),
            part(2, SMALL, WEIGHTED_POD_TERM),
            part(3, SMALL + 3 * LIST, POD_TERM),
            part(4, SMALL, WEIGHTED_POD_TERM)),
        part(22, SMALL + LIST, part(4, SMALL, SELECTOR), part(8, TEXT)),
        part(23, SMALL)),
    part(4, SMALL, part(1, SMALL + TEXT, part(4, SMALL, RESOURCES)))
  };

  private static final Part[] NODES = {
    part(2, 0, part(1, ROW, NODE_ROW)), part(3, 0, numbers(3, FOUND), part(4, ROW, NODE_ROW))
  };

  private static final Part[] READS = {
    numbers(1, 8),
    part(2, 0, part(1, TEXT), part(2, TEXT)),
    part(3, 0, part(1, TEXT), part(2, TEXT)),
    part(4, SMALL)
  };

  /** A message that is checked. */
  static final class Shape {
    static final Shape GET_INFO =
        new Shape(
            part(2, TEXT),
            part(
                5,
                0,
                numbers(1, 8),
                numbers(2, 8),
                numbers(3, 8),
                numbers(4, 8),
                numbers(5, 8),
                numbers(6, 8),
                part(7, TEXT),
                part(8, TEXT)));
    static final Shape QUESTION = new Shape(part(2, 0, POD), part(3, 0, NODES));
    static final Shape PREEMPT =
        new Shape(
            part(2, 0, POD),
            part(3, 0, NODES),
            element(
                4,
                SMALL + 64,
                "candidates",
                element(1, SMALL, "victims", part(2, POD_MESSAGE, POD))));
    static final Shape BIND = new Shape(part(6, 0, POD));
    static final Shape REPORT = new Shape(part(2, SMALL + OUTCOME));
    static final Shape INTROSPECT = new Shape(part(4, ENTRY), part(5, ENTRY));
    static final Shape SYNC_NODES =
        new Shape(
            element(4, SMALL, "upserts", part(2, ROW, NODE_ROW)), numbers(5, 8), part(8, 0, READS));

    private final List<Part> parts;

    /** No byte takes more; unlimited if there is more to check than memory. */
    private final long perByte;

    private Shape(Part... parts) {
      this.parts = List.of(parts);
      perByte = perByte(this.parts);
    }

    /** An occurrence has a tag and, unless it is a number in a list, a length or a value. */
    private static long perByte(List<Part> parts) {
      long most = 0;
      for (Part part : parts) {
        long own = part.isNumbers ? part.bytes : (part.bytes + 1) / 2;
        own = part.element == null ? own : Integer.MAX_VALUE;
        most = Math.max(most, Math.max(own, perByte(part.shape)));
      }
      return most;
    }
  }

  /**
   * Rejects a message that would take much more memory than its bytes, or that has empty entries.
   * Allocates little, and reads each byte at most once per level of nesting.
   */
  static void check(byte[] message, Shape shape) {
    long limit = Math.min(message.length * PER_BYTE + BASE, MOST);
    // Most messages are small, and cannot exceed what every message may take.
    if (message.length * shape.perByte <= limit) {
      return;
    }
    long left = limit;
    try {
      left = take(CodedInputStream.newInstance(message), shape.parts, left);
    } catch (IOException broken) {
      throw broken(broken);
    }
    if (left < 0) {
      throw CallException.of(
              Status.Code.RESOURCE_EXHAUSTED,
              "the message has %d bytes and would take more than %d decoded; send fewer and fuller entries"
                  .formatted(message.length, limit))
          .because(ErrorReason.ERROR_REASON_TOO_LARGE);
    }
  }

  static CallException broken(IOException broken) {
    return CallException.invalid("the message cannot be decoded: %s", broken.getMessage());
  }

  /** What is left after the fields up to the limit of the input; negative if it is not enough. */
  private static long take(CodedInputStream input, List<Part> shape, long available)
      throws IOException {
    long left = available;
    for (int tag = input.readTag(); tag != 0 && left >= 0; tag = input.readTag()) {
      Part part = find(shape, WireFormat.getTagFieldNumber(tag));
      if (part == null) {
        input.skipField(tag);
        continue;
      }
      if (WireFormat.getTagWireType(tag) != WireFormat.WIRETYPE_LENGTH_DELIMITED) {
        left -= part.bytes;
        input.skipField(tag);
        continue;
      }
      int length = input.readRawVarint32();
      if (length == 0 && part.element != null) {
        throw CallException.invalid("%s has an empty entry; each entry has content", part.element);
      }
      int outer = input.pushLimit(length);
      if (part.isNumbers) {
        while (input.getBytesUntilLimit() > 0) {
          input.readRawVarint64();
          left -= part.bytes;
        }
      } else {
        left -= part.bytes;
        if (!part.shape.isEmpty() && left >= 0) {
          left = take(input, part.shape, left);
        }
        input.skipRawBytes(Math.max(0, input.getBytesUntilLimit()));
      }
      input.popLimit(outer);
    }
    return left;
  }

  private static Part find(List<Part> shape, int field) {
    for (int at = 0; at < shape.size(); at++) {
      Part part = shape.get(at);
      if (part.field == field) {
        return part;
      }
    }
    return null;
  }
}
