package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.testing.NoAnswerException;
import io.extendergateway.policy.testing.Testing;
import io.extendergateway.policy.v1beta1.IntrospectRequest;
import io.extendergateway.policy.v1beta1.IntrospectionServiceGrpc;
import io.extendergateway.policy.v1beta1.Resources;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.logging.Filter;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What a policy shows, over a socket: answers, failures, and mistakes of the declaration. */
class IntrospectionTest {
  private static final String QUOTA = "/quotas/:namespace";

  private record Quota(String namespace, long used, Optional<Integer> most, Instant since) {}

  private record Limit(@ArgDefault("5") int most) {}

  /** Shows one quota, and fails in every way. */
  private static final class Quotas implements Policy {
    final Semaphore begun = new Semaphore(0);
    final CompletableFuture<String> ended = new CompletableFuture<>();
    private final Limit limit;

    Quotas(Limit limit) {
      this.limit = limit;
    }

    @Override
    public Info info() {
      return Info.of("quotas", "1")
          .filters(Verb.perNode())
          .shows("/quotas", "All quotas", ask -> List.of(shop()))
          .shows(QUOTA, "The quota of a namespace", this::quota)
          .shows("/query", "", IntrospectAsk::query)
          .shows("/large", "", ask -> "x".repeat(Integer.parseInt(ask.query("bytes").get()) - 2))
          .shows("/bug", "", ask -> lines("a bug\nwith two lines"))
          .shows("/error", "", ask -> error())
          .shows("/checked", "", ask -> checked())
          .shows("/unwritable", "", ask -> new Object())
          .shows("/not-ready", "", ask -> notReady())
          .shows("/misread", "", ask -> ask.parameter("namespace"))
          .shows("/slow", "", ask -> slow());
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return Verdict.accept();
    }

    private Quota shop() {
      return new Quota("shop", 3, Optional.of(limit.most), Instant.EPOCH);
    }

    private Quota quota(IntrospectAsk ask) throws Exception {
      String unit = ask.query("unit").orElse("pods");
      if (!unit.equals("pods")) {
        throw new InvalidParameterException("unit is \"%s\"; expected pods".formatted(unit));
      }
      String namespace = ask.parameter("namespace");
      if (!namespace.equals("shop")) {
        throw new NotFoundException("no quota for namespace %s".formatted(namespace));
      }
      return shop();
    }

    private static String lines(String text) {
      throw new IllegalStateException(text);
    }

    private static String error() {
      throw new AssertionError("an error");
    }

    private static String checked() throws IOException {
      throw new IOException("checked");
    }

    private static String notReady() throws NotReadyException {
      throw new NotReadyException("the quotas are not loaded yet");
    }

    private String slow() throws InterruptedException {
      begun.release();
      try {
        Thread.sleep(60_000);
      } catch (InterruptedException interrupted) {
        ended.complete("interrupted");
        throw interrupted;
      }
      return "";
    }
  }

  private final Quotas policy = new Quotas(new Limit(5));
  private Served served;

  @BeforeEach
  void serve() throws ServeException {
    served = Served.of(policy);
  }

  @AfterEach
  void stop() {
    served.close();
  }

  private static IntrospectRequest.Builder asked(String path) {
    return IntrospectRequest.newBuilder().setBackend("b").setPath(path);
  }

  private static String shown(Served from, IntrospectRequest.Builder request) {
    return IntrospectionServiceGrpc.newBlockingStub(from.channel)
        .withDeadlineAfter(20, TimeUnit.SECONDS)
        .introspect(request.build())
        .getJson()
        .toStringUtf8();
  }

  private static void refused(
      Served from, IntrospectRequest.Builder request, Status.Code code, String text) {
    Status status = Served.failure(() -> shown(from, request));
    assertEquals(code, status.getCode(), status.toString());
    assertTrue(status.getDescription().startsWith(text), status.toString());
  }

  private void refused(IntrospectRequest.Builder request, Status.Code code, String text) {
    refused(served, request, code, text);
  }

  @Test
  void aDeclaredPathIsShownAsJson() {
    String shop =
        "{\"namespace\":\"shop\",\"used\":3,\"most\":5,\"since\":\"1970-01-01T00:00:00Z\"}";
    assertEquals("[" + shop + "]", shown(served, asked("/quotas")));
    assertEquals(shop, shown(served, asked(QUOTA).putParameters("namespace", "shop")));
    // A parameter that the path does not have is no mistake of the policy or the caller.
    assertEquals("[" + shop + "]", shown(served, asked("/quotas").putParameters("x", "y")));
    assertEquals("{}", shown(served, asked("/query")));
    assertEquals("{\"a\":\"b c\"}", shown(served, asked("/query").putQuery("a", "b c")));
  }

  @Test
  void anUnknownPathOrObjectIsNotFound() {
    String text = "this policy does not show \"%s\"; its GetInfo lists";
    for (String path : List.of("", "/", "/quota", "/quotas/", "/quotas/shop", "/quotas/:name")) {
      refused(asked(path), Status.Code.NOT_FOUND, text.formatted(path));
    }
    refused(
        asked(QUOTA).putParameters("namespace", "x"),
        Status.Code.NOT_FOUND,
        "no quota for namespace x");
  }

  @Test
  void aParameterThatIsMissingOrInvalidIsNamed() {
    String text = "parameters[\"namespace\"] is missing; the path /quotas/:namespace has it";
    refused(asked(QUOTA), Status.Code.INVALID_ARGUMENT, text);
    refused(asked(QUOTA).putParameters("namespace", ""), Status.Code.INVALID_ARGUMENT, text);
    refused(
        asked(QUOTA).putParameters("namespace", "shop").putQuery("unit", "x"),
        Status.Code.INVALID_ARGUMENT,
        "unit is \"x\"; expected pods");
  }

  @Test
  void theArgsSelectThePolicy() throws ServeException {
    IntrospectRequest.Builder request = asked("/quotas").setArgs(json("{\"most\":9}"));
    refused(request, Status.Code.INVALID_ARGUMENT, "this policy takes no args");
    try (Served configured = Served.of(Backend.configured(Limit.class, Quotas::new))) {
      assertTrue(shown(configured, request).contains("\"most\":9"));
      assertTrue(shown(configured, asked("/quotas")).contains("\"most\":5"));
      refused(
          configured,
          asked("/quotas").setArgs(json("{\"most\":\"x\"}")),
          Status.Code.INVALID_ARGUMENT,
          "args.most: ");
      refused(
          configured,
          asked("/nothing").setArgs(json("[]")),
          Status.Code.INVALID_ARGUMENT,
          "args is not a JSON object");
    }
  }

  private static ByteString json(String text) {
    return ByteString.copyFromUtf8(text);
  }

  @Test
  void anAnswerOfMoreThanFourMebibytesIsRefused() {
    int most = 4 << 20;
    assertEquals(most, shown(served, large(most)).length());
    refused(
        large(most + 1),
        Status.Code.RESOURCE_EXHAUSTED,
        "the answer has more than 4194304 bytes of JSON, the maximum; show less");
    refused(large(20 << 20), Status.Code.RESOURCE_EXHAUSTED, "the answer has more than");
  }

  private static IntrospectRequest.Builder large(int bytes) {
    return asked("/large").putQuery("bytes", Integer.toString(bytes));
  }

  @Test
  void aFailureEndsOneCallAndIsInTheLogAlone() {
    Logger logger = Logger.getLogger("io.extendergateway.policy");
    Queue<String> log = new ConcurrentLinkedQueue<>();
    Filter before = logger.getFilter();
    logger.setFilter(
        record -> {
          log.add("%s %s".formatted(record.getMessage(), record.getThrown()));
          return before == null || before.isLoggable(record);
        });
    try {
      for (String path : List.of("/bug", "/error", "/checked", "/unwritable")) {
        Status bug = Served.failure(() -> shown(served, asked(path)));
        assertEquals(Status.Code.INTERNAL, bug.getCode());
        assertEquals(
            "failed to show %s; the backend's log says why".formatted(path), bug.getDescription());
      }
    } finally {
      logger.setFilter(before);
    }
    String all = String.join("\n", log);
    for (String text :
        List.of(
            "a bug\nwith two lines",
            "AssertionError: an error",
            "IOException: checked",
            "the value cannot be written as JSON")) {
      assertTrue(all.contains(text), all);
    }
    refused(
        asked("/misread"),
        Status.Code.INTERNAL,
        "introspect failed: parameter \"namespace\" is read and not declared; declare it as a segment :namespace of the path"
            + " /misread");
    refused(asked("/not-ready"), Status.Code.UNAVAILABLE, "the quotas are not loaded yet");
    assertEquals("{}", shown(served, asked("/query")));
  }

  @Test
  void oneThatTakesTooLongIsInterrupted() throws Exception {
    var stub =
        IntrospectionServiceGrpc.newBlockingStub(served.channel)
            .withDeadlineAfter(500, TimeUnit.MILLISECONDS);
    Status status = Served.failure(() -> stub.introspect(asked("/slow").build()));
    assertEquals(Status.Code.DEADLINE_EXCEEDED, status.getCode());
    assertTrue(policy.begun.tryAcquire(20, TimeUnit.SECONDS));
    assertEquals("interrupted", policy.ended.get(20, TimeUnit.SECONDS));
  }

  @Test
  void thoseThatWaitKeepNoThreadFromOtherCalls() throws Exception {
    var stub = IntrospectionServiceGrpc.newFutureStub(served.channel);
    var slow = new ArrayList<Future<?>>();
    for (int at = 0; at < 16; at++) {
      slow.add(stub.introspect(asked("/slow").build()));
    }
    assertTrue(policy.begun.tryAcquire(16, 20, TimeUnit.SECONDS));
    refused(
        asked("/slow"), Status.Code.UNAVAILABLE, "16 introspections are in progress, the maximum");
    assertEquals(1, served.filter(Served.about("a")).getResult().getEvaluated());
    slow.forEach(future -> future.cancel(true));
  }

  @Test
  void theLatestVersionOfAReplaceablePolicyIsShown() throws ServeException {
    Backend.Replaceable backend = Backend.replaceable(new Quotas(new Limit(1)));
    try (Served replaced = Served.of(backend)) {
      assertTrue(shown(replaced, asked("/quotas")).contains("\"most\":1"));
      backend.replace(new Quotas(new Limit(2)));
      assertTrue(shown(replaced, asked("/quotas")).contains("\"most\":2"));
    }
  }

  @Test
  void aPolicyIsTriedWithoutAServer() {
    assertTrue(
        Testing.introspect(policy, QUOTA, Map.of("namespace", "shop"), Map.of())
            .startsWith("{\"namespace\":\"shop\""));
    NoAnswerException refused =
        assertThrows(
            NoAnswerException.class,
            () -> Testing.introspect(policy, QUOTA, Map.of("namespace", "x"), Map.of()));
    assertEquals("no quota for namespace x", refused.getMessage());
  }

  @Test
  void everyAnswerIsValidJson() {
    Map<String, Object> values = new LinkedHashMap<>();
    values.put("nan", Double.NaN);
    values.put("infinite", List.of(Float.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY));
    values.put("array", new double[] {Double.NaN, 1});
    values.put("none", Optional.empty());
    values.put("some", List.of(Optional.of("a"), OptionalInt.of(1), OptionalLong.of(2)));
    values.put("number", OptionalDouble.of(Double.NaN));
    values.put("time", Duration.ofSeconds(90));
    values.put("large", Long.MIN_VALUE);
    values.put("text", "ä😀\"\n");
    values.put("half\ud83d", "\ude00");
    assertEquals(
        """
        {"nan":"NaN","infinite":["Infinity","-Infinity"],"array":["NaN",1.0],"none":null,"some":["a",1,2],\
        "number":"NaN","time":"PT1M30S","large":-9223372036854775808,"text":"ä😀\\"\\n","half?":"?"}""",
        ShownJson.of(values).toStringUtf8());
    assertEquals("null", ShownJson.of(null).toStringUtf8());
  }

  @Test
  void aValueThatIsNoJsonIsSaid() {
    unwritable(new Object(), "No serializer found for class java.lang.Object");
    unwritable(
        Map.of("a", Resources.getDefaultInstance()),
        "Resources is a protobuf message; return its fields in a record or a map");
    List<Object> circle = new ArrayList<>();
    circle.add(circle);
    unwritable(circle, "Document nesting depth");
  }

  private static void unwritable(Object value, String text) {
    IllegalStateException failure =
        assertThrows(IllegalStateException.class, () -> ShownJson.of(value));
    assertTrue(
        failure.getMessage().startsWith("the value cannot be written as JSON: " + text),
        failure.getMessage());
  }
}
