package io.extendergateway.policy;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.DomainCount;
import io.extendergateway.policy.v1beta1.MapValues;
import io.extendergateway.policy.v1beta1.Pod;
import io.extendergateway.policy.v1beta1.PodFacts;
import io.extendergateway.policy.v1beta1.TopologyCounts;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * The values of declared keys come without their keys, so their number must be right: one that is
 * missing would shift all others. Counts by topology are looked up, so they must be in order.
 */
final class Values {
  /** Managed fields are nested as deeply as their writer likes: Go reads 10,000 levels. */
  private static final StreamReadConstraints AS_GO =
      StreamReadConstraints.builder().maxNestingDepth(10_240).maxNumberLength(16 << 20).build();

  /** Objects have fields of any version of Kubernetes. */
  private static final ObjectMapper OBJECTS =
      JsonMapper.builder(JsonFactory.builder().streamReadConstraints(AS_GO).build())
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .build();

  private Values() {}

  /** What is wrong with the labels or annotations of an object; {@code null}: nothing. */
  private static String mismatch(String field, MapValues given, int keys) {
    if (given.getValuesCount() != keys) {
      return "%s.values has %d values, and %d keys are declared"
          .formatted(field, given.getValuesCount(), keys);
    }
    int least = 0;
    for (int at = 0; at < given.getAbsentCount(); at++) {
      int position = given.getAbsent(at);
      // Beyond an int is negative, and so below the least.
      if (position < least || position >= keys) {
        return "%s.absent is not a list of ascending positions below %d".formatted(field, keys);
      }
      least = position + 1;
    }
    return null;
  }

  /**
   * What is wrong with the values of a pod; {@code null}: nothing. A pod without facts has none.
   */
  static String mismatch(Pod pod, Layout.Fields fields) {
    if (!pod.hasFacts()) {
      return null;
    }
    PodFacts facts = pod.getFacts();
    return mismatch(fields.counts(), facts.getLabels(), facts.getAnnotations());
  }

  /** The same for an object with these. */
  static String mismatch(Layout.Counts counts, MapValues labels, MapValues annotations) {
    String mismatch = mismatch("labels", labels, counts.labels());
    return mismatch != null ? mismatch : mismatch("annotations", annotations, counts.annotations());
  }

  /** What is wrong with the counts by topology of the pod to be placed; {@code null}: nothing. */
  static String topologyMismatch(Pod pod, Layout.Fields fields) {
    int given = pod.getTopologyCountsCount();
    int declared = fields.topologies.size();
    if (given != declared) {
      return " has %d entries, and %d are declared".formatted(given, declared);
    }
    for (int position = 0; position < given; position++) {
      TopologyCounts counts = pod.getTopologyCounts(position);
      List<DomainCount> domains = counts.getDomainsList();
      for (int at = 1; at < domains.size(); at++) {
        if (Utf8.compare(domains.get(at - 1).getValue(), domains.get(at).getValue()) >= 0) {
          return "[%d].domains is not in ascending order of value, each once".formatted(position);
        }
      }
      // Values ascend: if one is not empty, the last one is not.
      boolean valued = !domains.isEmpty() && !domains.get(domains.size() - 1).getValue().isEmpty();
      if (valued && fields.topologies.get(position).label() == null) {
        return "[%d].domains has a value, and no topology key is declared for it"
            .formatted(position);
      }
    }
    return null;
  }

  /** The value of a key at this place, if the object has it. */
  static Optional<String> at(int place, MapValues given, String key) {
    if (place == Keys.Places.ENTRY) {
      return Optional.ofNullable(given.getEntriesOrDefault(key, null));
    }
    String value = given.getValues(place);
    if (value.isEmpty()) {
      for (int at = 0; at < given.getAbsentCount(); at++) {
        if (given.getAbsent(at) == place) {
          return Optional.empty();
        }
      }
    }
    return Optional.of(value);
  }

  /** The entries with this beginning. */
  static Map<String, String> entries(MapValues given, String prefix) {
    Map<String, String> all = given.getEntriesMap();
    if (prefix.isEmpty()) {
      return all;
    }
    return all.entrySet().stream()
        .filter(entry -> entry.getKey().startsWith(prefix))
        .collect(
            Collectors.toMap(
                Map.Entry::getKey, Map.Entry::getValue, (a, b) -> a, java.util.LinkedHashMap::new));
  }

  /** An unset field is an empty text in the contract. */
  static Optional<String> given(String text) {
    return text.isEmpty() ? Optional.empty() : Optional.of(text);
  }

  static <T> T model(ByteString json, Class<T> type, String object) {
    try {
      // Bytes that are not UTF-8, which Go passes on in managed fields, are replaced.
      return OBJECTS.readValue(json.toStringUtf8(), type);
    } catch (IOException wrong) {
      throw new IllegalStateException(
          "the JSON of the %s cannot be read as %s: %s"
              .formatted(object, type.getName(), wrong.getMessage()),
          wrong);
    }
  }
}
