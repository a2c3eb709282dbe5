package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.NodeUsage;
import io.extendergateway.policy.v1beta1.NonZero;
import io.extendergateway.policy.v1beta1.Resources;

/** Sums of amounts. One beyond the type's range is an {@link ArithmeticException}. */
final class Amounts {
  private Amounts() {}

  static Resources sum(Resources left, Resources right) {
    Resources.Builder sum =
        left.toBuilder()
            .setMilliCpu(Math.addExact(left.getMilliCpu(), right.getMilliCpu()))
            .setMemory(Math.addExact(left.getMemory(), right.getMemory()))
            .setEphemeralStorage(
                Math.addExact(left.getEphemeralStorage(), right.getEphemeralStorage()))
            .setPods(Math.addExact(left.getPods(), right.getPods()));
    right
        .getOthersMap()
        .forEach(
            (name, amount) ->
                sum.putOthers(name, Math.addExact(left.getOthersOrDefault(name, 0), amount)));
    return sum.build();
  }

  static NodeUsage sum(NodeUsage left, NodeUsage right) {
    NodeUsage.Builder sum = left.toBuilder();
    if (right.hasRequested()) {
      sum.setRequested(sum(left.getRequested(), right.getRequested()));
    }
    if (right.hasNonzero()) {
      sum.setNonzero(sum(left.getNonzero(), right.getNonzero()));
    }
    return sum.build();
  }

  private static NonZero sum(NonZero left, NonZero right) {
    return NonZero.newBuilder()
        .setMilliCpu(Math.addExact(left.getMilliCpu(), right.getMilliCpu()))
        .setMemory(Math.addExact(left.getMemory(), right.getMemory()))
        .build();
  }
}
