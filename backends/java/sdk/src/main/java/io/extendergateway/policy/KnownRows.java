package io.extendergateway.policy;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.WireFormat;
import io.extendergateway.policy.v1beta1.NodeRow;
import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.zip.CRC32C;

/**
 * The last inline rows of a server, decoded and checked: most nodes of a cluster that fits come
 * with the same bytes in the next call, and decoding them is most of its work. Of rows with the
 * same name, read by the same declaration, there is one.
 *
 * <p>Whatever rows clients send, these take less than 32 MB: all verbs and policies share 2,048
 * slots, and a slot takes at most 14 KiB, 29.4 MB together. A row of which this estimate is larger
 * is not kept:
 *
 * <ul>
 *   <li>256 bytes for the slot, the key, the row and its message;
 *   <li>7 for each encoded byte: the byte itself, and at most 6 decoded. A character takes 2, and a
 *       number in a list, which may have been one byte, 4 in an array that is half as large again;
 *   <li>160 for each text or message in it. The most is measured for messages of a list with a map
 *       of one entry each: 500 bytes for four of them, most of which are the map.
 * </ul>
 *
 * <p>References have 4 bytes, as in all heaps of less than 32 GB. Unknown fields are not decoded.
 * Nor is a row with JSON kept, which a policy may have decoded to anything. A usual row has 300
 * bytes and 40 texts and messages, an estimate of 9 kB.
 */
final class KnownRows {
  static final int SLOTS = 2048;
  private static final int MAX_ROW = 14 << 10;
  private static final int ROW = 256;
  private static final int PER_BYTE = 7;
  private static final int PER_PART = 160;

  /** A row is in one of so many slots: few of 2,000 names find all of theirs taken. */
  private static final int TRIES = 8;

  private static final int NAME =
      (NodeRow.NAME_FIELD_NUMBER << 3) | WireFormat.WIRETYPE_LENGTH_DELIMITED;

  private final AtomicReferenceArray<Known> slots = new AtomicReferenceArray<>(SLOTS);

  /** A row that has been checked for this digest of a declaration. */
  @SuppressWarnings("ArrayRecordComponent") // Known rows are not compared.
  private record Known(int digest, ByteString reads, byte[] encoded, Row row) {
    boolean isFor(int wanted, ByteString declared) {
      return digest == wanted && reads.equals(declared);
    }
  }

  /** The row with these bytes, checked for what is read; {@code null} if it is not known. */
  Row find(ByteString reads, byte[] bytes, Wire.Range at) {
    int digest = digest(reads, bytes, at);
    for (int next = 0; next < TRIES; next++) {
      Known known = slots.get(slot(digest, next));
      if (known != null && known.isFor(digest, reads)) {
        byte[] same = known.encoded;
        boolean isSame = Arrays.equals(same, 0, same.length, bytes, at.from(), at.to());
        return isSame ? known.row : null;
      }
    }
    return null;
  }

  /** Keeps a row that has been checked for what is read, unless it may take too much. */
  void keep(ByteString reads, byte[] encoded, Row row) throws IOException {
    if (size(encoded) > MAX_ROW || !row.message.getRawJson().isEmpty()) {
      return;
    }
    int digest = digest(reads, encoded, Wire.Range.of(encoded));
    int place = slot(digest, 0);
    for (int next = TRIES - 1; next >= 0; next--) {
      Known known = slots.get(slot(digest, next));
      if (known == null || known.isFor(digest, reads)) {
        place = slot(digest, next);
      }
    }
    slots.set(place, new Known(digest, reads, encoded, row));
  }

  private static int slot(int digest, int next) {
    return (digest + next) & (SLOTS - 1);
  }

  /** Of the name, which gateways send first, or without one of all bytes; and of what is read. */
  private static int digest(ByteString reads, byte[] bytes, Wire.Range at) {
    int name = at.length() > 2 && bytes[at.from()] == NAME ? bytes[at.from() + 1] : 0;
    boolean isNamed = name > 0 && name <= at.length() - 2;
    CRC32C digest = new CRC32C();
    digest.update(bytes, at.from(), isNamed ? 2 + name : at.length());
    return (int) digest.getValue() ^ reads.hashCode();
  }

  private static long size(byte[] encoded) throws IOException {
    long bytes = ROW + (long) PER_BYTE * encoded.length;
    return bytes > MAX_ROW
        ? bytes
        : bytes + PER_PART * parts(CodedInputStream.newInstance(encoded), NodeRow.getDescriptor());
  }

  /** The texts and messages of a message, and of those in it. */
  private static long parts(CodedInputStream input, Descriptor type) throws IOException {
    long parts = 0;
    for (int tag = input.readTag(); tag != 0; tag = input.readTag()) {
      FieldDescriptor field = type.findFieldByNumber(WireFormat.getTagFieldNumber(tag));
      if (WireFormat.getTagWireType(tag) != WireFormat.WIRETYPE_LENGTH_DELIMITED) {
        input.skipField(tag);
        continue;
      }
      parts++;
      int length = input.readRawVarint32();
      if (field == null || field.getJavaType() != FieldDescriptor.JavaType.MESSAGE) {
        input.skipRawBytes(length);
        continue;
      }
      int outer = input.pushLimit(length);
      parts += parts(input, field.getMessageType());
      input.popLimit(outer);
    }
    return parts;
  }
}
