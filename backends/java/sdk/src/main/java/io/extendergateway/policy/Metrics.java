package io.extendergateway.policy;

import io.grpc.Status;
import io.prometheus.metrics.core.metrics.Counter;
import io.prometheus.metrics.core.metrics.GaugeWithCallback;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.exporter.httpserver.HTTPServer;
import io.prometheus.metrics.model.registry.Collector;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.DoubleSupplier;

/**
 * Metrics by the Prometheus client library, in its default registry, where a program has its own.
 * Loaded only if they are served.
 */
final class Metrics implements AutoCloseable {
  private static final double[] BOUNDS = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1
  };

  /** Calls that are not about a verb. */
  private static final Set<String> UNCOUNTED = Set.of("change", "introspect");

  static {
    // In seconds, so that slow clients do not keep the few threads of the JDK's server for long.
    for (String limit : List.of("sun.net.httpserver.maxReqTime", "sun.net.httpserver.maxRspTime")) {
      System.setProperty(limit, System.getProperty(limit, "10"));
    }
  }

  private final List<Collector> registered = new ArrayList<>();
  private final Counter calls;
  private final Histogram durations;
  private final HTTPServer server;

  Metrics(InetSocketAddress address, Backend backend, Tables tables) throws IOException {
    try {
      calls =
          register(
              Counter.builder()
                  .name("extender_policy_calls_total")
                  .help("Calls that have ended.")
                  .labelNames("verb", "code")
                  .build());
      durations =
          register(
              Histogram.builder()
                  .name("extender_policy_call_duration_seconds")
                  .help("Time from the beginning of a call to its end.")
                  .labelNames("verb")
                  .classicOnly()
                  .classicUpperBounds(BOUNDS)
                  .build());
      gauge("table_nodes", "Rows in all node tables.", tables::rows);
      gauge("tables", "Node tables.", tables::count);
      gauge("ready", "Whether the policy is ready: 0 or 1.", () -> backend.isReady() ? 1 : 0);
      server =
          HTTPServer.builder()
              .inetAddress(address.getAddress())
              .port(address.getPort())
              .buildAndStart();
    } catch (IOException | RuntimeException failure) {
      registered.forEach(PrometheusRegistry.defaultRegistry::unregister);
      throw failure;
    }
  }

  private <C extends Collector> C register(C collector) {
    PrometheusRegistry.defaultRegistry.register(collector);
    registered.add(collector);
    return collector;
  }

  private void gauge(String name, String help, DoubleSupplier value) {
    register(
        GaugeWithCallback.builder()
            .name("extender_policy_" + name)
            .help(help)
            .callback(callback -> callback.call(value.getAsDouble()))
            .build());
  }

  /** A call has ended. */
  void count(String verb, Status.Code code, long nanos) {
    if (!UNCOUNTED.contains(verb)) {
      calls.labelValues(verb, code.name()).inc();
      durations.labelValues(verb).observe(nanos / 1e9);
    }
  }

  int port() {
    return server.getPort();
  }

  @Override
  public void close() {
    server.close();
    registered.forEach(PrometheusRegistry.defaultRegistry::unregister);
  }
}
