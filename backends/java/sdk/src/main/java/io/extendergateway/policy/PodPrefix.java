package io.extendergateway.policy;

/**
 * A declared beginning of keys of a pod, from {@link Reads#podLabels} or {@link
 * Reads#podAnnotations}: what {@link Pod#entries} reads with.
 */
public final class PodPrefix {
  final Key.Which map;
  final String text;

  PodPrefix(Key.Which map, String text) {
    this.map = map;
    this.text = text;
  }

  @Override
  public String toString() {
    return text;
  }
}
