package io.extendergateway.examples;

import io.extendergateway.policy.*;

/** Rejects arm64 nodes. */
final class NoArm implements Policy {
  private final Reads reads = new Reads();
  private final NodeKey arch = reads.nodeLabel("kubernetes.io/arch");

  @Override
  public Info info() {
    return Info.of("no-arm", "1.0.0").filters(Verb.perNode().pure().reads(reads));
  }

  @Override
  public Verdict filter(Pod pod, Node node) {
    boolean isArm = node.get(arch).filter("arm64"::equals).isPresent();
    return isArm
        ? Verdict.reject("arm64 nodes are not in use yet").unresolvable()
        : Verdict.accept();
  }

  public static void main(String[] arguments) {
    PolicyServer.run(arguments, new NoArm());
  }
}
