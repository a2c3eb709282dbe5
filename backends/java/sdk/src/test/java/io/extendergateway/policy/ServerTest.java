package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.sun.net.httpserver.HttpServer;
import io.extendergateway.policy.v1beta1.BindOutcome;
import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.ChangeRequest;
import io.extendergateway.policy.v1beta1.HookServiceGrpc;
import io.extendergateway.policy.v1beta1.PolicyServiceGrpc;
import io.grpc.ClientInterceptor;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The life of a server: services beside the policy, options, traces, the end. */
class ServerTest {
  private static final Policy FILTERS =
      new Declaring(Info.of("filters", "1").filters(Verb.perNode()));

  /** Binds when it is allowed to. */
  private static final class Patient implements Policy {
    final CountDownLatch begun = new CountDownLatch(1);
    final CountDownLatch allowed = new CountDownLatch(1);
    volatile String traceparent;

    @Override
    public Info info() {
      return Info.of("patient", "1").binds().beforeFilter(Hook.changes(ChangedPart.POD_LABELS));
    }

    @Override
    public PodChange beforeFilter(Pod pod) {
      return PodChange.none();
    }

    @Override
    public Bind bind(BindAsk ask) throws InterruptedException {
      Tracing.attribute("acme.tenant", "blue");
      traceparent = Tracing.traceparent().orElse("none");
      begun.countDown();
      allowed.await();
      return Bind.bound();
    }
  }

  private static BindRequest bind() {
    return BindRequest.newBuilder()
        .setCall(Served.call())
        .setNamespace("shop")
        .setName("web")
        .setUid("u")
        .setNode("n")
        .build();
  }

  @Test
  void callsInProgressFinishAndNewOnesAreNotAccepted() throws Exception {
    Patient policy = new Patient();
    Served served = Served.of(policy);
    BlockingQueue<ServingStatus> health = new LinkedBlockingQueue<>();
    HealthGrpc.newStub(served.channel)
        .watch(
            HealthCheckRequest.getDefaultInstance(),
            new StreamObserver<>() {
              @Override
              public void onNext(HealthCheckResponse response) {
                health.add(response.getStatus());
              }

              @Override
              public void onError(Throwable error) {}

              @Override
              public void onCompleted() {}
            });
    var outcome = PolicyServiceGrpc.newFutureStub(served.channel).bind(bind());
    assertTrue(policy.begun.await(20, TimeUnit.SECONDS));
    assertEquals(ServingStatus.SERVING, health.poll(20, TimeUnit.SECONDS));
    Thread stopping = new Thread(served.server::close);
    stopping.start();
    assertEquals(ServingStatus.NOT_SERVING, health.poll(20, TimeUnit.SECONDS));
    Thread.sleep(200);
    assertTrue(stopping.isAlive());
    policy.allowed.countDown();
    assertEquals(BindOutcome.BIND_OUTCOME_BOUND, outcome.get(20, TimeUnit.SECONDS).getOutcome());
    stopping.join(20_000);
    assertTrue(!stopping.isAlive());
    Status refused =
        Served.failure(() -> served.client.withDeadlineAfter(2, TimeUnit.SECONDS).bind(bind()));
    assertEquals(Status.Code.UNAVAILABLE, refused.getCode());
    served.close();
  }

  @Test
  void aCallThatTakesTooLongIsCancelledAtTheEnd() throws Exception {
    Patient policy = new Patient();
    ServeOptions options = Served.OPTIONS.drain(java.time.Duration.ofMillis(300));
    Served served = Served.of(Backend.of(policy), options);
    var outcome = PolicyServiceGrpc.newFutureStub(served.channel).bind(bind());
    assertTrue(policy.begun.await(20, TimeUnit.SECONDS));
    long begin = System.nanoTime();
    served.server.close();
    assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(8));
    assertThrows(Exception.class, () -> outcome.get(20, TimeUnit.SECONDS));
    served.close();
  }

  @Test
  void theOptionsOfEveryBackendAreTakenOutOfACommandLine() throws Exception {
    List<String> arguments =
        new ArrayList<>(
            List.of("--mine", "7", "--address=0.0.0.0:9", "--tls-cert", "c", "--tls-key=k", "--x"));
    ServeOptions options = ServeOptions.take(arguments);
    assertEquals(List.of("--mine", "7", "--x"), arguments);
    assertEquals("0.0.0.0:9", options.address);
    assertEquals("k", options.tlsKey.toString());
    wrong("invalid --address \"9\"; expected HOST:PORT", "--address", "9");
    wrong("invalid --address \"::1:9\"", "--address", "::1:9");
    wrong("invalid --address \"a:99999\"", "--address", "a:99999");
    wrong("--address has no value; expected HOST:PORT", "--address");
    wrong("--address has no value", "--address", "--tls-key");
    wrong("--address is given twice", "--address=a:1", "--address=a:1");
    wrong("--tls-cert is given without --tls-key", "--tls-cert", "c");
    wrong("--tls-client-ca is given without --tls-cert", "--tls-client-ca", "c");
  }

  @Test
  void anOptionThatIsNotGivenIsTakenFromTheEnvironment() throws Exception {
    Map<String, String> all =
        Map.of(
            "EXTENDER_POLICY_ADDRESS", "[::1]:9",
            "EXTENDER_POLICY_TLS_CERT", "c",
            "EXTENDER_POLICY_TLS_KEY", "k",
            "EXTENDER_POLICY_TLS_CLIENT_CA", "a",
            "EXTENDER_POLICY_ALLOW_UNAUTHENTICATED_BIND", "true",
            "EXTENDER_POLICY_METRICS_ADDRESS", "0.0.0.0:8",
            "EXTENDER_POLICY_LOG_CALLS", "false");
    assertEquals(
        "[::1]:9 c k a true 0.0.0.0:8 false",
        shown(ServeOptions.take(new ArrayList<>(List.of("--x")), all)));
    List<String> given =
        List.of("--address=a:1", "--tls-cert=d", "--metrics-address", "b:2", "--log-calls");
    assertEquals("a:1 d k a true b:2 true", shown(ServeOptions.take(new ArrayList<>(given), all)));
    assertEquals(
        "127.0.0.1:0 null null null false null false",
        shown(ServeOptions.take(new ArrayList<>(), Map.of("EXTENDER_POLICY_TLS_CERT", ""))));
    wrongVariable(
        "invalid EXTENDER_POLICY_ADDRESS \"9\"; expected", "EXTENDER_POLICY_ADDRESS", "9");
    wrongVariable(
        "invalid EXTENDER_POLICY_LOG_CALLS \"1\"; expected true or false",
        "EXTENDER_POLICY_LOG_CALLS",
        "1");
    wrongVariable(
        "EXTENDER_POLICY_TLS_KEY is given without --tls-cert", "EXTENDER_POLICY_TLS_KEY", "k");
    wrongVariable(
        "EXTENDER_POLICY_TLS_CLIENT_CA is given without", "EXTENDER_POLICY_TLS_CLIENT_CA", "a");
  }

  private static String shown(ServeOptions options) {
    return "%s %s %s %s %s %s %s"
        .formatted(
            options.address,
            options.tlsCert,
            options.tlsKey,
            options.tlsClientCa,
            options.allowUnauthenticatedBind,
            options.metricsAddress,
            options.logCalls);
  }

  private static void wrongVariable(String text, String variable, String value) {
    UsageException mistake =
        assertThrows(
            UsageException.class,
            () -> ServeOptions.take(new ArrayList<>(), Map.of(variable, value)));
    assertTrue(mistake.getMessage().startsWith(text), mistake.getMessage());
  }

  private static void wrong(String text, String... arguments) {
    UsageException mistake =
        assertThrows(
            UsageException.class,
            () -> ServeOptions.take(new ArrayList<>(Arrays.asList(arguments))));
    assertTrue(mistake.getMessage().startsWith(text), mistake.getMessage());
  }

  @Test
  void anAddressInUseIsSaid() throws Exception {
    try (Served served = Served.of(FILTERS)) {
      String address = served.server.address();
      ServeException failure =
          assertThrows(
              ServeException.class,
              () -> PolicyServer.start(Backend.of(FILTERS), Served.OPTIONS.address(address)));
      assertTrue(
          failure.getMessage().startsWith("cannot listen on " + address + ": ")
              && failure.getMessage().contains("in use; set another --address"),
          failure.getMessage());
    }
  }

  @Test
  void anEarlierVersionAnswersCallsThatWereMadeForIt() throws Exception {
    record Reading(String key) implements Policy {
      @Override
      public Info info() {
        Reads reads = new Reads();
        reads.nodeLabel(key);
        return Info.of("reading", key).revision(key).filters(Verb.perNode().reads(reads));
      }

      @Override
      public Verdict filter(Pod pod, Node node) {
        return Verdict.accept();
      }
    }

    Backend.Replaceable backend = Backend.replaceable(new Reading("k0"));
    try (Served served = Served.of(backend)) {
      List<ByteString> declared = new ArrayList<>();
      for (int version = 0; version < 19; version++) {
        backend.replace(new Reading("k" + version));
        declared.add(Testing.readsSha256(backend));
      }
      for (int version = 0; version < 19; version++) {
        var row = Served.row("").toBuilder();
        row.getFactsBuilder().getLabelsBuilder().addValues("v");
        var request =
            Served.about("a")
                .setCall(Served.call().setReads(declared.get(version)))
                .setNodes(Served.inline(row.build()));
        if (version < 2) {
          Status status = Served.failure(() -> served.filter(request));
          assertEquals(Status.Code.FAILED_PRECONDITION, status.getCode());
        } else {
          assertEquals("k" + version, served.filter(request).getResult().getRevision());
        }
      }
      assertThrows(
          DeclarationException.class, () -> backend.replace(() -> Info.of("nothing", "1")));
      assertEquals(
          "k18",
          served
              .client
              .getInfo(io.extendergateway.policy.v1beta1.GetInfoRequest.getDefaultInstance())
              .getVersion());
    }
  }

  /** What is not public. */
  private static final class Testing {
    static ByteString readsSha256(Backend backend) {
      return backend.policyFor(ByteString.EMPTY).declaration().readsSha256(Declaration.Kind.FILTER);
    }
  }

  @Test
  void tracedCallsGetASpan() throws Exception {
    BlockingQueue<String> exported = new LinkedBlockingQueue<>();
    HttpServer collector =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    collector.createContext(
        "/v1/traces",
        exchange -> {
          // Protobuf, in which texts are legible.
          byte[] body = exchange.getRequestBody().readAllBytes();
          exported.add(new String(body, StandardCharsets.ISO_8859_1));
          exchange.sendResponseHeaders(200, -1);
          exchange.close();
        });
    collector.start();
    try {
      Map<String, String> variables =
          Map.of(
              "OTEL_EXPORTER_OTLP_ENDPOINT",
              "http://127.0.0.1:" + collector.getAddress().getPort(),
              "OTEL_BSP_SCHEDULE_DELAY",
              "50");
      Patient policy = new Patient();
      policy.allowed.countDown();
      try (Served served =
          Served.of(Backend.of(policy), ServeOptions.defaults().telemetry(variables))) {
        String trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        traced(served, "broken").bind(bind());
        assertEquals("none", policy.traceparent);
        traced(served, "00-" + trace + "-00f067aa0ba902b7-00").bind(bind());
        assertEquals("none", policy.traceparent);
        traced(served, "00-" + trace + "-00f067aa0ba902b7-01").bind(bind());
        assertTrue(policy.traceparent.startsWith("00-" + trace), policy.traceparent);
        String spans = exported.poll(20, TimeUnit.SECONDS);
        for (String text :
            List.of(
                "extender.policy.v1beta1.PolicyService/Bind",
                "rpc.system.name",
                "rpc.response.status_code",
                "extender.policy.revision",
                "extender.call.id",
                "acme.tenant",
                "patient")) {
          assertTrue(spans.contains(text), text + " in " + spans);
        }
        // The last span is sent at the end.
        HookServiceGrpc.newBlockingStub(served.channel)
            .withInterceptors(sending("00-" + trace + "-00f067aa0ba902b7-01"))
            .change(
                ChangeRequest.newBuilder()
                    .setCall(Served.call().setCluster("a-cluster"))
                    .setPod(Served.pod())
                    .setHook(io.extendergateway.policy.v1beta1.Verb.VERB_BEFORE_FILTER)
                    .build());
      }
      String spans = exported.poll(20, TimeUnit.SECONDS);
      String name = "extender.policy.v1beta1.HookService/Change";
      // The name of the span, and the attribute rpc.method.
      assertTrue(spans.indexOf(name) != spans.lastIndexOf(name), spans);
      assertTrue(spans.contains("extender.nodes.evaluated"), spans);
      assertTrue(spans.contains("a-cluster"), spans);
      assertTrue(spans.contains("extender.hook") && spans.contains("beforeFilter"), spans);
      assertTrue(!spans.contains("extender.nodes.rejected"), spans);
      assertTrue(exported.isEmpty());
    } finally {
      collector.stop(0);
    }
  }

  private static PolicyServiceGrpc.PolicyServiceBlockingStub traced(
      Served served, String traceparent) {
    return served.client.withInterceptors(sending(traceparent));
  }

  private static ClientInterceptor sending(String traceparent) {
    Metadata headers = new Metadata();
    headers.put(Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER), traceparent);
    return MetadataUtils.newAttachHeadersInterceptor(headers);
  }
}
