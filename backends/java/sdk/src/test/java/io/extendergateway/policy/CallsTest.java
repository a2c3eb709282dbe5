package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.ChangeRequest;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.HookServiceGrpc;
import io.extendergateway.policy.v1beta1.OutcomeServiceGrpc;
import io.extendergateway.policy.v1beta1.ReportRequest;
import io.grpc.Status;
import io.prometheus.metrics.core.metrics.Counter;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Metrics and log lines of calls over a socket. */
class CallsTest {
  private static final System.Logger LOG = System.getLogger("io.extendergateway.policy");

  private static final Reads READS =
      new Reads().node(NodePart.NAME).pod(PodPart.NAMESPACE, PodPart.IDENTITY);

  /** Logs, and does what the node's name says. */
  private static final class Logging implements Policy {
    volatile boolean ready = true;

    @Override
    public Info info() {
      return Info.of("logging", "1")
          .filters(Verb.perNode().reads(READS))
          .scores(Verb.perNode().pure().reads(new Reads()), Scale.unbounded())
          .beforeFilter(Hook.changes(ChangedPart.POD_LABELS))
          .binds()
          .observesOutcomes();
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return switch (node.name()) {
        case "full" -> Verdict.reject("full");
        case "bug" -> throw new IllegalStateException();
        default -> Verdict.accept();
      };
    }

    @Override
    public int score(Pod pod, Node node) {
      assertThrows(UndeclaredReadException.class, pod::callId);
      pod.logger(LOG).log(System.Logger.Level.INFO, "{0} points", 7);
      pod.logger(LOG).log(System.Logger.Level.INFO, "{wrong", 7);
      return 7;
    }

    @Override
    public PodChange beforeFilter(Pod pod) {
      return PodChange.none();
    }

    @Override
    public Bind bind(BindAsk ask) {
      ask.logger(LOG).log(System.Logger.Level.INFO, "binds", new IOException());
      return Bind.bound();
    }

    @Override
    public void observe(Outcome outcome) {}

    @Override
    public void ready() throws NotReadyException {
      if (!ready) {
        throw new NotReadyException("old\nprices");
      }
    }
  }

  private final Logging policy = new Logging();

  /** One call of several verbs. */
  private void call(Served served) {
    var pod = Served.pod().toBuilder();
    pod.getIdentityBuilder().setName("web\n1");
    var request = Served.about("a", "full").setCall(Served.call(READS)).setPod(pod);
    assertEquals(1, served.filter(request).getRejectionsCount());
    request.setNodes(Served.about("bug").getNodes());
    assertEquals(Status.Code.INTERNAL, Served.failure(() -> served.filter(request)).getCode());
    var scored =
        io.extendergateway.policy.v1beta1.ScoreRequest.newBuilder()
            .setCall(Served.call())
            .setPod(Served.pod())
            .setNodes(Served.about("a").getNodes());
    assertEquals(7, served.client.score(scored.build()).getScores().getValues(0));
    var bind =
        BindRequest.newBuilder()
            .setCall(Served.call())
            .setNamespace("shop")
            .setName("web-1")
            .setUid("u")
            .setNode("n");
    assertTrue(served.client.bind(bind.build()).isInitialized());
    policy.ready = false;
    var hook =
        ChangeRequest.newBuilder()
            .setCall(Served.call())
            .setPod(Served.pod())
            .setHook(io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_FILTER);
    var hooks = HookServiceGrpc.newBlockingStub(served.channel);
    assertEquals(
        Status.Code.UNAVAILABLE, Served.failure(() -> hooks.change(hook.build())).getCode());
    var report = ReportRequest.newBuilder().setCall(Served.call()).build();
    var outcomes = OutcomeServiceGrpc.newBlockingStub(served.channel);
    assertEquals(
        Status.Code.INVALID_ARGUMENT, Served.failure(() -> outcomes.report(report)).getCode());
    assertEquals("logging", served.client.getInfo(GetInfoRequest.getDefaultInstance()).getName());
  }

  @Test
  void aLineForEachCall() throws Exception {
    try (LogLines log = new LogLines()) {
      try (Served served = Served.of(Backend.of(policy), Served.OPTIONS.logCalls())) {
        call(served);
      }
      List<String> lines =
          log.lines.stream()
              .filter(line -> !line.contains("the trace is logged once"))
              .map(line -> line.replaceAll("ms=[0-9]+\\.[0-9]{3}", "ms"))
              .toList();
      assertEquals(
          List.of(
              "filter call=c1 pod=shop/web?1 nodes=2 rejected=1 ms null",
              "filter call=c1 pod=shop/web?1 nodes=1 code=INTERNAL message=filter failed"
                  + " (IllegalStateException); see the policy's log ms null",
              "call=c1 pod=shop: 7 points null",
              "call=c1 pod=shop: {wrong null",
              "score call=c1 pod=shop nodes=1 ms null",
              "call=c1 pod=shop/web-1: binds java.io.IOException",
              "bind call=c1 pod=shop/web-1 ms null",
              "before_filter call=c1 pod=shop code=UNAVAILABLE message=old?prices ms null",
              "observe call=c1 code=INVALID_ARGUMENT message=outcomes is missing;"
                  + " every request has it ms null",
              "get_info ms null"),
          lines);
    }
  }

  @Test
  void callsAreCounted() throws Exception {
    Counter own = Counter.builder().name("acme_seats_total").register();
    ServeOptions options = Served.OPTIONS.metricsAddress("127.0.0.1:0");
    try (LogLines log = new LogLines();
        Served served = Served.of(Backend.of(policy), options)) {
      call(served);
      String text = metrics(served);
      for (String line :
          List.of(
              "acme_seats_total 0.0",
              "extender_policy_calls_total{code=\"OK\",verb=\"filter\"} 1.0",
              "extender_policy_calls_total{code=\"INTERNAL\",verb=\"filter\"} 1.0",
              "extender_policy_calls_total{code=\"OK\",verb=\"score\"} 1.0",
              "extender_policy_calls_total{code=\"OK\",verb=\"bind\"} 1.0",
              "extender_policy_calls_total{code=\"UNAVAILABLE\",verb=\"before_filter\"} 1.0",
              "extender_policy_calls_total{code=\"INVALID_ARGUMENT\",verb=\"observe\"} 1.0",
              "extender_policy_calls_total{code=\"OK\",verb=\"get_info\"} 1.0",
              "extender_policy_call_duration_seconds_count{verb=\"filter\"} 2",
              "extender_policy_table_nodes 0.0",
              "extender_policy_tables 0.0",
              "extender_policy_ready 0.0")) {
        assertTrue(text.contains(line + "\n"), line + " in " + text);
      }
      List<String> bounds =
          text.lines()
              .filter(line -> line.contains("_bucket{verb=\"filter\""))
              .map(line -> line.replaceAll(".*le=\"([^\"]*)\".*", "$1"))
              .toList();
      assertEquals(
          "5.0E-4 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1.0 +Inf",
          String.join(" ", bounds));
      assertFalse(log.lines.stream().anyMatch(line -> line.contains("ms=")));
      // One server of a process counts.
      ServeException second =
          assertThrows(ServeException.class, () -> Served.of(Backend.of(policy), options));
      assertTrue(second.getMessage().contains("set another --metrics-address"));
    } finally {
      PrometheusRegistry.defaultRegistry.unregister(own);
    }
    Served.of(Backend.of(policy), options).close();
  }

  private static String metrics(Served served) throws Exception {
    var address = URI.create("http://127.0.0.1:" + served.server.metricsPort() + "/metrics");
    var request = HttpRequest.newBuilder(address).build();
    return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
  }
}
