package io.extendergateway.policy;

import io.extendergateway.policy.v1alpha1.NodeFacts;
import io.extendergateway.policy.v1alpha1.NodeRow;
import io.extendergateway.policy.v1alpha1.PodCount;
import io.extendergateway.policy.v1alpha1.PodCounts;
import java.util.List;

/** One row of a request or a table: checked once. A row of a table is shared by all calls. */
final class Row {
  final NodeRow message;

  /** Decoded from the JSON at its first use; calls may race for it, and decode equal objects. */
  private volatile Object model;

  Row(NodeRow message) {
    this.message = message;
  }

  NodeFacts facts() {
    return message.getFacts();
  }

  /**
   * The field that is missing, of those that a policy must be able to rely on; {@code null} if none
   * is.
   */
  String lacks(Declaration.RowParts parts) {
    if (parts.name() && message.getName().isEmpty()) {
      return "name";
    }
    return parts.facts() && !message.hasFacts() ? "facts" : null;
  }

  /**
   * What does not match the declaration, as the end of a sentence that begins with the row; {@code
   * null}: nothing.
   */
  String mismatch(Layout.Counts counts) {
    if (message.hasFacts()) {
      NodeFacts facts = facts();
      String mismatch =
          Values.mismatch(
              "label", facts.getLabelValuesCount(), facts.getAbsentLabelsList(), counts.labels());
      if (mismatch == null) {
        mismatch =
            Values.mismatch(
                "annotation",
                facts.getAnnotationValuesCount(),
                facts.getAbsentAnnotationsList(),
                counts.annotations());
      }
      if (mismatch != null) {
        return "facts." + mismatch;
      }
    }
    int given = message.getPodCountsCount();
    return given == counts.pods()
        ? null
        : "pod_counts has %d entries, and %d are declared".formatted(given, counts.pods());
  }

  /**
   * The position of a list of counts that is not in the order that a look-up requires; -1 if there
   * is none.
   */
  int unordered() {
    for (int position = 0; position < message.getPodCountsCount(); position++) {
      List<PodCount> counts = message.getPodCounts(position).getCountsList();
      for (int at = 1; at < counts.size(); at++) {
        if (compare(counts.get(at - 1), counts.get(at)) >= 0) {
          return position;
        }
      }
    }
    return -1;
  }

  private static int compare(PodCount left, PodCount right) {
    int order = Utf8.compare(left.getNamespace(), right.getNamespace());
    return order != 0 ? order : Utf8.compare(left.getValue(), right.getValue());
  }

  /** The count with this attribute; {@code null} if there is none. */
  static PodCount find(PodCounts list, PodsBy.Attribute wanted) {
    int low = 0;
    int high = list.getCountsCount() - 1;
    while (low <= high) {
      int middle = (low + high) >>> 1;
      PodCount count = list.getCounts(middle);
      int order = Utf8.compare(count.getNamespace(), wanted.namespace());
      if (order == 0) {
        order = Utf8.compare(count.getValue(), wanted.value());
      }
      if (order == 0) {
        return count;
      } else if (order < 0) {
        low = middle + 1;
      } else {
        high = middle - 1;
      }
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
