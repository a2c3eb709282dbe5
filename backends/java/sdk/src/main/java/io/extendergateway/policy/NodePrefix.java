package io.extendergateway.policy;

/**
 * A declared beginning of keys of a node, from {@link Reads#nodeLabels} or {@link
 * Reads#nodeAnnotations}: what {@link Node#entries} reads with.
 */
public final class NodePrefix {
  final Key.Which map;
  final String text;

  NodePrefix(Key.Which map, String text) {
    this.map = map;
    this.text = text;
  }

  @Override
  public String toString() {
    return text;
  }
}
