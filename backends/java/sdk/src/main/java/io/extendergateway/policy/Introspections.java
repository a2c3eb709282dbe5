package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.IntrospectRequest;
import io.extendergateway.policy.v1beta1.IntrospectResponse;
import io.grpc.Status;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;

/**
 * From a request of IntrospectionService to an answer, without sockets. Everything that is thrown
 * here becomes a status by {@link Failures}.
 */
final class Introspections {
  private final Backend backend;
  private final Executor waiting;

  /** Introspections, which wait, are run by the executor. */
  Introspections(Backend backend, Executor waiting) {
    this.backend = backend;
    this.waiting = waiting;
  }

  /** What a path shows; failures come by the future or are thrown. */
  CompletionStage<IntrospectResponse> answer(IntrospectRequest request) {
    ShownPath path = declared(request);
    checkParameters(request, path);
    IntrospectAsk ask = new IntrospectAsk(path, request);
    return Waiting.run(() -> response(path, ask), waiting);
  }

  private ShownPath declared(IntrospectRequest request) {
    Declaration declaration = backend.policyFor(request.getArgs()).declaration();
    ShownPath path = declaration.shown(request.getPath());
    if (path == null) {
      throw CallException.of(
          Status.Code.NOT_FOUND,
          "this policy does not show \"%s\"; its GetInfo lists the paths that it shows"
              .formatted(request.getPath()));
    }
    return path;
  }

  private static void checkParameters(IntrospectRequest request, ShownPath path) {
    for (String name : path.parameters()) {
      if (request.getParametersOrDefault(name, "").isEmpty()) {
        throw CallException.invalid(
            "parameters[\"%s\"] is missing; the path %s has it", name, path.path());
      }
    }
  }

  private static IntrospectResponse response(ShownPath path, IntrospectAsk ask) {
    try {
      Object value = path.introspection().show(ask);
      return IntrospectResponse.newBuilder().setJson(ShownJson.of(value)).build();
    } catch (Throwable failure) {
      throw new Failures.ShowException(path.path(), failure);
    }
  }
}
