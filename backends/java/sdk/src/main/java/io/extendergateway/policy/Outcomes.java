package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.OutcomeKind;
import io.extendergateway.policy.v1beta1.ReportRequest;
import io.extendergateway.policy.v1beta1.ReportResponse;
import io.grpc.Status;
import java.util.List;

/**
 * From a request of OutcomeService to an answer, without sockets. Everything that is thrown here
 * becomes a status by {@link Failures}.
 */
final class Outcomes {
  /** The method of the service. */
  static final String METHOD = "Report";

  /** The policy's method, as a verb. */
  static final String VERB = "Observe";

  private Outcomes() {}

  /** The policy with these args, if it observes outcomes. */
  static Policy observer(Backend backend, NamedArgs args) {
    Backend.Prepared prepared = backend.policyFor(args);
    if (!prepared.declaration().observesOutcomes) {
      throw CallException.of(
          Status.Code.UNIMPLEMENTED,
          "this policy does not observe outcomes; its GetInfo does not list OutcomeService");
    }
    return prepared.policy();
  }

  /** Tells the policy about all outcomes, or about none if the request is invalid. */
  static ReportResponse answer(ReportRequest request, Policy policy) throws Exception {
    check(request);
    for (var outcome : request.getOutcomesList()) {
      policy.observe(Outcome.of(outcome));
    }
    return ReportResponse.getDefaultInstance();
  }

  private static void check(ReportRequest request) {
    if (!request.hasCall()) {
      throw CallException.missing("call");
    }
    Questions.checkPurpose(request.getCall(), /* onlyDecides= */ false);
    List<io.extendergateway.policy.v1beta1.Outcome> outcomes = request.getOutcomesList();
    if (outcomes.isEmpty()) {
      throw CallException.missing("outcomes");
    }
    for (int position = 0; position < outcomes.size(); position++) {
      String missing = missing(outcomes.get(position));
      if (missing != null) {
        throw CallException.invalid(
            "outcomes[%d].%s is missing; every outcome has it, and that of a bound pod has its node",
            position, missing);
      }
    }
  }

  /** The required field that is missing; {@code null}: none. */
  private static String missing(io.extendergateway.policy.v1beta1.Outcome outcome) {
    if (outcome.getCall().isEmpty()) {
      return "call";
    }
    if (outcome.getNamespace().isEmpty()) {
      return "namespace";
    }
    if (outcome.getName().isEmpty()) {
      return "name";
    }
    if (outcome.getUid().isEmpty()) {
      return "uid";
    }
    if (outcome.getKindValue() == OutcomeKind.OUTCOME_KIND_UNSPECIFIED_VALUE) {
      return "kind";
    }
    boolean isBound = outcome.getKind() == OutcomeKind.OUTCOME_KIND_BOUND;
    return isBound && outcome.getNode().isEmpty() ? "node" : null;
  }
}
