package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.MapReads;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;

/** The keys and prefixes of one map as they are declared. */
final class Keys {
  /** Each with its place in the order of declarations; by bytes. */
  private final TreeMap<String, Key> keys = new TreeMap<>(Utf8::compare);

  private final TreeSet<String> prefixes = new TreeSet<>(Utf8::compare);

  Keys copy() {
    Keys copy = new Keys();
    copy.keys.putAll(keys);
    copy.prefixes.addAll(prefixes);
    return copy;
  }

  Key key(Key.Which map, String text) {
    Objects.requireNonNull(text, "key");
    return keys.computeIfAbsent(text, added -> new Key(map, added, keys.size()));
  }

  void prefix(String text) {
    prefixes.add(Objects.requireNonNull(text, "prefix"));
  }

  /** Where a request has each of them if it has all entries of the map. */
  Places placesInAll() {
    return new Places(keys, new String[] {""});
  }

  /** Where a request has each of them. */
  Places places() {
    List<String> shortest = new ArrayList<>();
    for (String prefix : prefixes) {
      if (shortest.isEmpty() || !prefix.startsWith(shortest.get(shortest.size() - 1))) {
        shortest.add(prefix);
      }
    }
    return new Places(keys, shortest.toArray(String[]::new));
  }

  /**
   * The same as they are sent: the contract wants keys in ascending order of their bytes, and none
   * that a prefix covers.
   */
  static final class Places {
    /** The key is in the map of entries. */
    static final int ENTRY = -1;

    /** The key is not declared. */
    static final int UNDECLARED = -2;

    /** The keys of the values. */
    final String[] keys;

    /** Ascending; none begins with another one. */
    final String[] prefixes;

    /** All declared keys, and where each is, in the order of declarations. */
    private final String[] declared;

    private final int[] declaredAt;
    private final Map<String, Integer> positions = new HashMap<>();

    private Places(Map<String, Key> all, String[] prefixes) {
      this.prefixes = prefixes;
      keys = all.keySet().stream().filter(key -> !covers(key)).toArray(String[]::new);
      for (int position = 0; position < keys.length; position++) {
        positions.put(keys[position], position);
      }
      declared = new String[all.size()];
      declaredAt = new int[all.size()];
      for (Key key : all.values()) {
        declared[key.order()] = key.text();
        declaredAt[key.order()] = find(key.text());
      }
    }

    /** The position of the value, {@link #ENTRY} or {@link #UNDECLARED}. */
    int of(Key key) {
      int order = key.order();
      // The key of another declaration is looked up by its text.
      boolean same = order < declared.length && declared[order].equals(key.text());
      return same ? declaredAt[order] : find(key.text());
    }

    /** The same for a key that is given as a text. */
    int find(String key) {
      Integer position = positions.get(key);
      return position != null ? position : covers(key) ? ENTRY : UNDECLARED;
    }

    /** Whether all keys with this beginning are sent with their values. */
    boolean covers(String text) {
      // No prefix begins with another one, so it can only be the last one that is not after the
      // text.
      int found = Arrays.binarySearch(prefixes, text, Utf8::compare);
      int last = found < 0 ? -found - 2 : found;
      return last >= 0 && text.startsWith(prefixes[last]);
    }

    /** Nothing if nothing is declared. */
    Optional<MapReads> message() {
      MapReads message =
          MapReads.newBuilder().addAllKeys(List.of(keys)).addAllPrefixes(List.of(prefixes)).build();
      return Optional.of(message).filter(reads -> keys.length + prefixes.length > 0);
    }
  }
}
