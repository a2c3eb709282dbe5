package io.extendergateway.policy;

import io.extendergateway.policy.v1alpha1.IntrospectionPath;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A path that a policy declares with {@link Info#shows}. */
record ShownPath(String path, String description, Introspection introspection) {
  private static final int MAX_PATHS = 64;
  private static final int MAX_BYTES = 256;

  private static final Pattern SEGMENT = Pattern.compile("[A-Za-z0-9._~-]+|:[A-Za-z][A-Za-z0-9_]*");

  /** What the contract does not allow of all of these together, one sentence each. */
  static List<String> mistakes(List<ShownPath> paths) {
    List<String> mistakes = new ArrayList<>();
    if (paths.size() > MAX_PATHS) {
      mistakes.add(
          "Info.shows declares %d paths; expected at most %d, use a parameter for several objects"
              .formatted(paths.size(), MAX_PATHS));
    }
    Map<String, ShownPath> forms = new HashMap<>();
    for (ShownPath path : paths) {
      path.addMistakes(mistakes);
      ShownPath same = forms.putIfAbsent(path.form(), path);
      if (same != null) {
        mistakes.add(
            "Info.shows declares %s and %s, which match the same requests; remove or rename one"
                .formatted(same.quoted(), path.quoted()));
      }
    }
    return mistakes;
  }

  private void addMistakes(List<String> mistakes) {
    if (Utf8.length(path) > MAX_BYTES) {
      mistakes.add(
          "Info.shows has a path of %d bytes; expected at most %d"
              .formatted(Utf8.length(path), MAX_BYTES));
    } else if (!isWellFormed()) {
      mistakes.add(
          "Info.shows declares %s; expected segments of letters, digits and -._~ or a parameter such as :name,"
                  .formatted(quoted())
              + " each after a slash: /quotas/:namespace");
    } else if (segments().anyMatch(segment -> segment.equals(".") || segment.equals(".."))) {
      mistakes.add(
          "Info.shows declares %s with a segment \".\" or \"..\", which clients remove from a URL; rename it"
              .formatted(quoted()));
    } else if (hasRepeatedParameter()) {
      mistakes.add(
          "Info.shows declares %s, which has a parameter twice; give each its own name"
              .formatted(quoted()));
    }
    descriptionMistake(mistakes);
  }

  private void descriptionMistake(List<String> mistakes) {
    int bytes = Utf8.length(description);
    boolean isLine = description.chars().noneMatch(Character::isISOControl);
    if (bytes > MAX_BYTES || !isLine) {
      mistakes.add(
          "Info.shows declares %s with a description of %d bytes%s; expected at most %d in one line"
              .formatted(quoted(), bytes, isLine ? "" : " with control characters", MAX_BYTES));
    }
  }

  private String quoted() {
    return "\"" + Utf8.cut(path, MAX_BYTES) + "\"";
  }

  private boolean isWellFormed() {
    return path.startsWith("/")
        && segments().allMatch(segment -> SEGMENT.matcher(segment).matches());
  }

  private boolean hasRepeatedParameter() {
    Set<String> seen = new HashSet<>();
    return !parameters().stream().allMatch(seen::add);
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

  /** The path without the names of its parameters: equal forms match the same requests. */
  private String form() {
    return segments()
        .map(segment -> segment.startsWith(":") ? ":" : segment)
        .collect(Collectors.joining("/"));
  }

  IntrospectionPath message() {
    return IntrospectionPath.newBuilder().setPath(path).setDescription(description).build();
  }
}
