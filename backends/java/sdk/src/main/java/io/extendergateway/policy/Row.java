package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.NodeFacts;
import io.extendergateway.policy.v1beta1.NodeRow;
import io.extendergateway.policy.v1beta1.PodCount;
import io.extendergateway.policy.v1beta1.PodCounts;
import java.util.List;
import java.util.function.ToIntFunction;

/** One row of a request or a table: checked once. A row of a table is shared by all calls. */
final class Row {
  final NodeRow message;

  /** No character in the counts is in another order in UTF-16 than in UTF-8. */
  private final boolean isPlain;

  /** Decoded from the JSON at its first use; calls may race for it, and decode equal objects. */
  private volatile Object model;

  Row(NodeRow message) {
    this.message = message;
    isPlain = isPlain(message);
  }

  private static boolean isPlain(NodeRow row) {
    for (PodCounts list : row.getPodCountsList()) {
      for (PodCount count : list.getCountsList()) {
        if (!isPlain(count.getNamespace()) || !isPlain(count.getValue())) {
          return false;
        }
      }
    }
    return true;
  }

  private static boolean isPlain(String text) {
    for (int at = 0; at < text.length(); at++) {
      if (text.charAt(at) >= Character.MIN_SURROGATE) {
        return false;
      }
    }
    return true;
  }

  NodeFacts facts() {
    return message.getFacts();
  }

  /**
   * What is wrong, as the end of a sentence that begins with the row; {@code null}: nothing.
   *
   * @param parts what a policy must be able to rely on
   * @param counts how many values are declared
   * @param promise why a part must be there
   */
  String wrong(Declaration.RowParts parts, Layout.Counts counts, String promise) {
    boolean lacksName = parts.name() && message.getName().isEmpty();
    if (lacksName || (parts.facts() && !message.hasFacts())) {
      return ".%s is missing; %s".formatted(lacksName ? "name" : "facts", promise);
    }
    int unordered = unordered();
    if (unordered >= 0) {
      return (" is not a NodeRow: pod_counts[%d].counts is not in ascending order of namespace and"
              + " value, each once")
          .formatted(unordered);
    }
    return mismatch(counts);
  }

  private String mismatch(Layout.Counts counts) {
    NodeFacts facts = facts();
    String mismatch =
        message.hasFacts()
            ? Values.mismatch(counts, facts.getLabels(), facts.getAnnotations())
            : null;
    if (mismatch != null) {
      return ".facts." + mismatch;
    }
    int given = message.getPodCountsCount();
    return given == counts.pods()
        ? null
        : ".pod_counts has %d entries, and %d are declared".formatted(given, counts.pods());
  }

  /**
   * The position of a list of counts that is not in the order that a look-up requires; -1 if there
   * is none.
   */
  private int unordered() {
    for (int position = 0; position < message.getPodCountsCount(); position++) {
      List<PodCount> counts = message.getPodCounts(position).getCountsList();
      for (int at = 1; at < counts.size(); at++) {
        PodCount next = counts.get(at);
        if (compare(counts.get(at - 1), next.getNamespace(), next.getValue()) >= 0) {
          return position;
        }
      }
    }
    return -1;
  }

  private int compare(PodCount count, String namespace, String value) {
    int order = compare(count.getNamespace(), namespace);
    return order != 0 ? order : compare(count.getValue(), value);
  }

  /** Whatever the other text has: the library's comparison is several times as fast. */
  private int compare(String counted, String other) {
    return isPlain ? counted.compareTo(other) : Utf8.compare(counted, other);
  }

  /** The count with this attribute; {@code null} if there is none. */
  PodCount find(PodCounts list, PodsBy.Attribute wanted) {
    return find(list.getCountsList(), count -> compare(count, wanted.namespace(), wanted.value()));
  }

  /** The one that is in the order of what is wanted; {@code null} if there is none. */
  static <T> T find(List<T> ascending, ToIntFunction<T> order) {
    int low = 0;
    int high = ascending.size() - 1;
    while (low <= high) {
      int middle = (low + high) >>> 1;
      int found = order.applyAsInt(ascending.get(middle));
      if (found == 0) {
        return ascending.get(middle);
      }
      low = found < 0 ? middle + 1 : low;
      high = found < 0 ? high : middle - 1;
    }
    return null;
  }

  <T> T model(Class<T> type) {
    Object known = model;
    if (type.isInstance(known)) {
      return type.cast(known);
    }
    T decoded = Values.model(message.getRawJson(), type, "node");
    model = decoded;
    return decoded;
  }
}
