package io.extendergateway.policy;

/** A declared key: which map, its text, and its place in the order of declarations. */
record Key(Which map, String text, int order) {
  /** Labels or annotations. */
  enum Which {
    LABELS("label"),
    ANNOTATIONS("annotation");

    final String singular;

    Which(String singular) {
      this.singular = singular;
    }
  }
}
