package io.extendergateway.policy;

import io.extendergateway.policy.Backend.Prepared;
import io.extendergateway.policy.Declaration.Terms;
import io.extendergateway.policy.v1beta1.Miss;
import io.extendergateway.policy.v1beta1.Result;
import java.util.List;

/**
 * A request that can be answered, or the reason why its nodes cannot be read.
 *
 * @param prepared the policy that is asked
 * @param nodes the nodes of the request; none if it is about the pod alone
 * @param miss why the nodes cannot be read; {@code null} if they can
 */
record Question(Prepared prepared, Terms terms, Pod pod, List<Node> nodes, Miss miss) {
  Policy policy() {
    return prepared.policy();
  }

  /** The same question to another verb, which reads the same. */
  Question in(Terms other) {
    return new Question(prepared, other, pod.in(other.verb), nodes, miss);
  }

  /**
   * A policy that answers for more or fewer nodes than the call has cannot be trusted to have
   * matched them.
   */
  <A> List<A> counted(String method, List<A> answers) {
    counted(method, answers == null ? 0 : answers.size());
    return answers;
  }

  void counted(String method, int given) {
    int asked = nodes.size();
    if (given != asked) {
      throw CallException.internal(
          "%s returned %d answers for %d nodes; expected one per node", method, given, asked);
    }
  }

  /** The node at the position, as texts name it: by its name, if it was sent. */
  String named(int position) {
    String name = nodes.get(position).row.message.getName();
    return name.isEmpty() ? "position " + position : "node \"%s\"".formatted(name);
  }

  /** The result of an answer about all nodes, of one about the pod alone, or of a miss. */
  Result result(Trace trace) {
    if (miss != null) {
      trace.attribute("extender.miss", miss.name());
      return Result.newBuilder().setMiss(miss).build();
    }
    int evaluated = Math.max(1, nodes.size());
    trace.attribute("extender.nodes.evaluated", evaluated);
    return Result.newBuilder()
        .setEvaluated(evaluated)
        .setRevision(prepared.declaration().response.getRevision())
        .build();
  }
}
