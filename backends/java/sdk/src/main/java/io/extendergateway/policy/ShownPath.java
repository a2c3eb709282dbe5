package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.IntrospectionPath;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/** A path that a policy declares with {@link Info#shows}. */
record ShownPath(String path, String description, Introspection introspection) {
  ShownPath {
    Objects.requireNonNull(path, "path");
    Objects.requireNonNull(description, "description");
    Objects.requireNonNull(introspection, "introspection");
  }

  private Stream<String> segments() {
    return Stream.of(path.split("/", -1)).skip(1);
  }

  /** The names of its parameters, without colons. */
  List<String> parameters() {
    return segments()
        .filter(segment -> segment.startsWith(":"))
        .map(segment -> segment.substring(1))
        .toList();
  }

  IntrospectionPath message() {
    return IntrospectionPath.newBuilder().setPath(path).setDescription(description).build();
  }
}
