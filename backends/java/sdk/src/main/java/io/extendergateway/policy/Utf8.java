package io.extendergateway.policy;

/** Texts by their bytes in UTF-8, as the contract orders and measures them. */
final class Utf8 {
  private Utf8() {}

  /** The number of bytes. */
  static int length(String text) {
    int bytes = 0;
    for (int at = 0; at < text.length(); at++) {
      char unit = text.charAt(at);
      if (unit < 0x80) {
        bytes += 1;
      } else if (unit < 0x800) {
        bytes += 2;
      } else if (Character.isSurrogate(unit)) {
        // Two of them are four bytes.
        bytes += 2;
      } else {
        bytes += 3;
      }
    }
    return bytes;
  }

  /** The order of the bytes, which is that of code points and not that of UTF-16. */
  static int compare(String left, String right) {
    int common = Math.min(left.length(), right.length());
    for (int at = 0; at < common; at++) {
      char a = left.charAt(at);
      char b = right.charAt(at);
      if (a != b) {
        boolean beyond = Character.isSurrogate(a);
        return beyond == Character.isSurrogate(b) ? Character.compare(a, b) : beyond ? 1 : -1;
      }
    }
    return Integer.compare(left.length(), right.length());
  }

  /** The beginning of a text that has at most this many bytes. */
  static String cut(String text, int most) {
    if (text.length() <= most / 3) {
      return text;
    }
    int bytes = 0;
    for (int at = 0; at < text.length(); ) {
      int point = text.codePointAt(at);
      bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
      if (bytes > most) {
        return text.substring(0, at);
      }
      at += Character.charCount(point);
    }
    return text;
  }
}
