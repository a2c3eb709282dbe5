package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.IntrospectRequest;
import io.extendergateway.policy.v1beta1.IntrospectionServiceGrpc;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** The operator's JSON as types of a policy. */
class ArgsTest {
  private enum Mode {
    soft,
    hard
  }

  private record Rule(int weight, Optional<String> name) {}

  private record Drain(
      String label,
      @ArgDefault("[]") List<Rule> rules,
      @ArgDefault("3") @ArgRange(max = 1000) int most,
      Optional<Mode> mode,
      @ArgDefault("{}") Map<String, Long> limits,
      @ArgDefault("[]") Set<String> zones,
      @ArgDefault("1.5") double factor,
      @ArgDefault("0") @ArgRange(min = 0, max = 1) double share,
      @ArgDefault("true") boolean on) {
    Drain {
      if (most < 1) {
        throw new IllegalArgumentException("most is %d; expected 1 or more".formatted(most));
      }
    }
  }

  /** A class for which Jackson is used. */
  public static final class Bean {
    public String label = "";
    public int count;
  }

  private static ByteString json(String text) {
    return ByteString.copyFromUtf8(text);
  }

  private static void wrong(String json, String text) {
    ArgsException mistake =
        assertThrows(ArgsException.class, () -> Args.of(json(json)).as(Drain.class), json);
    assertEquals(text, mistake.getMessage(), json);
  }

  @Test
  void argumentsAreReadIntoTheRecord() {
    Drain drain = Args.of(json("{\"label\":\"rack\"}")).as(Drain.class);
    assertEquals(
        new Drain("rack", List.of(), 3, Optional.empty(), Map.of(), Set.of(), 1.5, 0, true), drain);
    drain =
        Args.of(
                json(
                    """
                    {"label":"a","rules":[{"weight":1},{"weight":2,"name":"n"}],"most":9,"mode":"hard",
                     "limits":{"x":5000000000},"zones":["z"],"factor":2,"on":false}"""))
            .as(Drain.class);
    assertEquals(
        List.of(new Rule(1, Optional.empty()), new Rule(2, Optional.of("n"))), drain.rules);
    assertEquals(Optional.of(Mode.hard), drain.mode);
    assertEquals(Map.of("x", 5_000_000_000L), drain.limits);
    assertEquals(2, drain.factor);
  }

  @Test
  void whatIsWrongIsSaidWithItsPath() {
    wrong("{}", "args: missing field `label`");
    wrong("", "args: missing field `label`");
    wrong(
        "{\"lable\":\"rack\"}",
        "args.lable: unknown field `lable`, expected one of `label`, `rules`, `most`, `mode`, `limits`, `zones`,"
            + " `factor`, `share`, `on`");
    wrong("{\"label\":7}", "args.label: invalid type: integer `7`, expected a string");
    wrong("{\"label\":null}", "args.label: invalid type: null, expected a string");
    wrong(
        "{\"label\":\"a\",\"most\":\"3\"}",
        "args.most: invalid type: string \"3\", expected an integer");
    wrong(
        "{\"label\":\"a\",\"most\":1.5}",
        "args.most: invalid type: floating point `1.5`, expected an integer");
    wrong(
        "{\"label\":\"a\",\"most\":3000000000}",
        "args.most: invalid value: integer `3000000000`, expected -2147483648 to 2147483647");
    wrong(
        "{\"label\":\"a\",\"share\":1.5}",
        "args.share: invalid value: floating point `1.5`, expected 0 to 1");
    wrong(
        "{\"label\":\"a\",\"most\":1001}",
        "args.most: invalid value: integer `1001`, expected at most 1000");
    wrong("{\"label\":\"a\",\"most\":0}", "args: most is 0; expected 1 or more");
    wrong(
        "{\"label\":\"a\",\"rules\":[{\"weight\":1},{\"wieght\":1}]}",
        "args.rules[1].wieght: unknown field `wieght`, expected `weight` or `name`");
    wrong("{\"label\":\"a\",\"rules\":[{}]}", "args.rules[0]: missing field `weight`");
    wrong(
        "{\"label\":\"a\",\"mode\":\"firm\"}",
        "args.mode: unknown variant `firm`, expected `soft` or `hard`");
    wrong(
        "{\"label\":\"a\",\"limits\":{\"x\":[]}}",
        "args.limits.x: invalid type: list, expected an integer");
    wrong("[1]", "args is not a JSON object; write `args: {name: value}`");
    wrong("7", "args is not a JSON object; write `args: {name: value}`");
    for (String broken : List.of("{", "{\"label\":\"a\"} x", "{\"label\":\"a\",\"label\":\"b\"}")) {
      ArgsException mistake =
          assertThrows(ArgsException.class, () -> Args.of(json(broken)), broken);
      assertTrue(mistake.getMessage().startsWith("args: is not valid JSON: "), mistake.toString());
    }
  }

  @Test
  void otherClassesAreReadByJackson() {
    Bean bean = Args.of(json("{\"label\":\"a\",\"count\":2}")).as(Bean.class);
    assertEquals("a2", bean.label + bean.count);
    ArgsException mistake =
        assertThrows(ArgsException.class, () -> Args.of(json("{\"cuont\":2}")).as(Bean.class));
    assertTrue(mistake.getMessage().startsWith("args.cuont: "), mistake.getMessage());
  }

  @Test
  void largeArgsAreRefusedBeforeTheyAreHashed() throws ServeException {
    ByteString large = json(" ".repeat((1 << 20) + 1));
    String reason = "ERROR_REASON_INVALID_ARGS";
    String text =
        "args has 1048577 bytes; at most 1048576 are allowed, put longer lists into a file of the policy";
    try (Served served = Served.of(rules)) {
      // The digest of others, which is not looked at.
      Call.Builder call = Served.named(ARGS).setArgs(large);
      refused(served, call, Status.Code.INVALID_ARGUMENT, reason, text);
      var info = GetInfoRequest.newBuilder().setArgs(large).build();
      var failure =
          assertThrows(StatusRuntimeException.class, () -> served.client.getInfo(info), text);
      assertEquals(Status.Code.INVALID_ARGUMENT, failure.getStatus().getCode());
      assertEquals(reason, Served.reason(failure.getTrailers()));
      assertEquals(text, failure.getStatus().getDescription());
    }
  }

  @Test
  void aPolicyIsBuiltOnceForEachArgs() throws ServeException {
    AtomicInteger built = new AtomicInteger();
    Backend backend =
        Backend.configured(
            Rule.class,
            rule -> {
              built.incrementAndGet();
              Info info = Info.of("rule", "" + rule.weight).revision("" + rule.weight);
              return new Declaring(info.filters(Verb.perNode()));
            });
    try (Served served = Served.of(backend)) {
      for (int call = 0; call < 3; call++) {
        for (int weight = 0; weight < 2; weight++) {
          ByteString args = json("{\"weight\":%d}".formatted(weight));
          GetInfoRequest info = GetInfoRequest.newBuilder().setArgs(args).build();
          assertEquals("" + weight, served.client.getInfo(info).getVersion());
          var filter = Served.about("a").setCall(Served.named(args));
          assertEquals("" + weight, served.filter(filter).getResult().getRevision());
        }
      }
      assertEquals(2, built.get());
      // Others that come once do not displace them.
      for (int weight = 2; weight < 100; weight++) {
        backend.policyFor(json("{\"weight\":%d}".formatted(weight)));
      }
      backend.policyFor(json("{\"weight\":0}"));
      assertEquals(100, built.get());
      Status inCall =
          Served.failure(
              () -> served.filter(Served.about("a").setCall(Served.call(json("{\"x\":1}")))));
      Status inHandshake =
          Served.failure(
              () ->
                  served.client.getInfo(
                      GetInfoRequest.newBuilder().setArgs(json("{\"x\":1}")).build()));
      for (Status status : List.of(inCall, inHandshake)) {
        assertEquals(Status.Code.INVALID_ARGUMENT, status.getCode());
        assertEquals(
            "args.x: unknown field `x`, expected `weight` or `name`", status.getDescription());
      }
    }
  }

  private final Backend rules =
      Backend.configured(
          Rule.class,
          rule ->
              new Declaring(
                  Info.of("rule", "1").revision("" + rule.weight).filters(Verb.perNode())));

  private static final ByteString ARGS = json("{\"weight\":7}");

  private static String revision(Served served, Call.Builder call) {
    return served.filter(Served.about("a").setCall(call)).getResult().getRevision();
  }

  private static void refused(
      Served served, Call.Builder call, Status.Code code, String reason, String text) {
    var failure = assertThrows(StatusRuntimeException.class, () -> revision(served, call), text);
    assertEquals(code, failure.getStatus().getCode(), text);
    assertEquals(reason, Served.reason(failure.getTrailers()), text);
    assertEquals(text, failure.getStatus().getDescription());
  }

  private static void unknown(Served served, Call.Builder call) {
    refused(
        served,
        call,
        Status.Code.FAILED_PRECONDITION,
        "ERROR_REASON_ARGS_UNKNOWN",
        "the args of this call are not known here; send them");
  }

  @Test
  void argsAreSentOnceAndThenNamed() throws ServeException {
    try (Served served = Served.of(rules)) {
      unknown(served, Served.named(ARGS));
      assertEquals("7", revision(served, Served.call(ARGS)));
      assertEquals("7", revision(served, Served.named(ARGS)));
      assertEquals("7", revision(served, Served.call(ARGS)));
    }
  }

  @Test
  void argsOfAnIntrospectionAreKnown() throws ServeException {
    try (Served served = Served.of(rules)) {
      var introspect = IntrospectRequest.newBuilder().setArgs(ARGS).setPath("/none").build();
      var client = IntrospectionServiceGrpc.newBlockingStub(served.channel);
      Status none = Served.failure(() -> client.introspect(introspect));
      assertEquals(Status.Code.NOT_FOUND, none.getCode());
      assertEquals("7", revision(served, Served.named(ARGS)));
    }
  }

  @Test
  void aPolicyWithoutArgsKnowsTheEmptyObject() throws ServeException {
    Policy policy = new Declaring(Info.of("p", "1").revision("r").filters(Verb.perNode()));
    try (Served served = Served.of(policy)) {
      ByteString empty = json("{ }");
      unknown(served, Served.named(empty));
      unknown(served, Served.named(ARGS));
      assertEquals("r", revision(served, Served.call(empty)));
      assertEquals("r", revision(served, Served.named(empty)));
      assertEquals("r", revision(served, Served.named(ByteString.EMPTY)));
      assertEquals("r", revision(served, Served.call()));
    }
  }

  @Test
  void aWrongDigestIsNamed() throws ServeException {
    try (Served served = Served.of(rules)) {
      assertEquals("7", revision(served, Served.call(ARGS)));
      String length = "call.args_sha256 has %d bytes; expected the 32 of the SHA-256 of the args";
      ByteString shorter = Sha256.of(ARGS).substring(1);
      Map<Call.Builder, String> wrong =
          Map.of(
              Served.call().setArgs(ARGS),
              length.formatted(0),
              Served.call().setArgsSha256(shorter),
              length.formatted(31),
              Served.call(ARGS).setArgsSha256(shorter.concat(shorter)),
              length.formatted(62),
              Served.call(ARGS).setArgs(json("{\"weight\":8}")),
              "call.args_sha256 is not the SHA-256 of call.args");
      wrong.forEach(
          (call, text) ->
              refused(
                  served,
                  call,
                  Status.Code.INVALID_ARGUMENT,
                  "ERROR_REASON_INVALID_REQUEST",
                  text));
    }
  }
}
