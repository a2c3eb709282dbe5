package io.extendergateway.policy;

/**
 * A declared label or annotation of a pod, from {@link Reads#podLabel} or {@link
 * Reads#podAnnotation}: what {@link Pod#get} reads with.
 */
public final class PodKey {
  final Key key;

  PodKey(Key key) {
    this.key = key;
  }

  @Override
  public String toString() {
    return key.text();
  }
}
