package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.IntrospectRequest;
import java.util.Map;
import java.util.Optional;

/** What somebody wants to see of a policy: the parameters of a path and the query of the URL. */
public final class IntrospectAsk {
  private final ShownPath path;
  private final IntrospectRequest request;

  IntrospectAsk(ShownPath path, IntrospectRequest request) {
    this.path = path;
    this.request = request;
  }

  /**
   * The value of a parameter of the path.
   *
   * @throws UndeclaredReadException if the path has no such parameter
   */
  public String parameter(String name) {
    if (!path.parameters().contains(name)) {
      throw new UndeclaredReadException(
          "parameter \"%s\" is read and not declared; declare it as a segment :%s of the path %s"
              .formatted(name, name, path.path()));
    }
    return request.getParametersOrThrow(name);
  }

  /**
   * The value of a key of the query, decoded, the last one if the key is repeated; empty if the
   * query does not have it.
   */
  public Optional<String> query(String key) {
    return Optional.ofNullable(request.getQueryMap().get(key));
  }

  /** The whole query, decoded: the values by their keys. */
  public Map<String, String> query() {
    return request.getQueryMap();
  }
}
