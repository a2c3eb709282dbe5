package io.extendergateway.policy;

/**
 * A declared label or annotation of a node, from {@link Reads#nodeLabel} or {@link
 * Reads#nodeAnnotation}: what {@link Node#get} reads with.
 */
public final class NodeKey {
  final Key key;

  NodeKey(Key key) {
    this.key = key;
  }

  @Override
  public String toString() {
    return key.text();
  }
}
