package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.BindOutcome;
import io.extendergateway.policy.v1beta1.BindRequest;
import io.extendergateway.policy.v1beta1.Call;
import io.extendergateway.policy.v1beta1.PolicyServiceGrpc;
import io.extendergateway.policy.v1beta1.Purpose;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The examples as processes: the line that says they are ready, exit statuses, signals. */
class ProgramTest {
  private static Process start(Class<?> program, String... arguments) throws IOException {
    List<String> command =
        new ArrayList<>(
            List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                program.getName()));
    command.addAll(Arrays.asList(arguments));
    return new ProcessBuilder(command).start();
  }

  private static void fails(int status, String text, Class<?> program, String... arguments)
      throws Exception {
    Process process = start(program, arguments);
    String said = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    assertEquals(status, process.exitValue(), said);
    assertTrue(said.startsWith(text), said);
    assertEquals("", new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
  }

  @Test
  void aWrongCommandLineIsNamed() throws Exception {
    fails(2, "unknown option --adress", NoArm.class, "--adress", "127.0.0.1:0");
    fails(2, "invalid --address \"9000\"", NoArm.class, "--address", "9000");
    fails(2, "--database is missing; expected a JDBC URL", Licences.class);
    fails(2, "invalid --refresh \"x\"", Licences.class, "--database", "u", "--refresh", "x");
    fails(1, "cannot listen on 192.0.2.1:0: ", NoArm.class, "--address", "192.0.2.1:0");
  }

  @Test
  void helpIsPrinted() throws Exception {
    Process process = start(Licences.class, "--help");
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor());
    assertTrue(said.contains("--database URL") && said.contains("--tls-client-ca FILE"), said);
  }

  private static String address(Process process) throws IOException {
    BufferedReader lines = process.inputReader(StandardCharsets.UTF_8);
    String line = lines.readLine();
    assertTrue(line != null && line.matches("listening on 127\\.0\\.0\\.1:[0-9]+"), line);
    return line.substring("listening on ".length());
  }

  @Test
  void aSignalEndsItWithStatusZero() throws Exception {
    Process process =
        start(Licences.class, "--database", "jdbc:h2:mem:empty", "--address=127.0.0.1:0");
    address(process);
    process.destroy();
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue());
  }

  @Test
  void aSecondSignalEndsItAtOnce() throws Exception {
    Process process = start(SlowBinder.class);
    ManagedChannel channel =
        Grpc.newChannelBuilder(address(process), InsecureChannelCredentials.create()).build();
    try {
      BindRequest bind =
          BindRequest.newBuilder()
              .setCall(
                  Call.newBuilder()
                      .setPurpose(Purpose.PURPOSE_DECIDE)
                      .setReads(sha256(ByteString.EMPTY)))
              .setNamespace("shop")
              .setName("web")
              .setUid("u")
              .setNode("n")
              .build();
      var outcome = PolicyServiceGrpc.newFutureStub(channel).bind(bind);
      assertEquals("begun", process.errorReader(StandardCharsets.UTF_8).readLine());
      process.destroy();
      assertFalse(process.waitFor(1, TimeUnit.SECONDS), "the call in progress was not waited for");
      process.destroy();
      assertTrue(process.waitFor(4, TimeUnit.SECONDS));
      assertTrue(outcome.cancel(true) || outcome.isDone());
    } finally {
      channel.shutdownNow();
      process.destroyForcibly();
    }
  }

  private static ByteString sha256(ByteString content) throws NoSuchAlgorithmException {
    byte[] digest = MessageDigest.getInstance("SHA-256").digest(content.toByteArray());
    return ByteString.copyFrom(digest);
  }

  @Test
  void itAnswers() throws Exception {
    Process process = start(Reference.class);
    ManagedChannel channel =
        Grpc.newChannelBuilder(address(process), InsecureChannelCredentials.create()).build();
    try {
      ByteString args = ByteString.copyFromUtf8("{\"zone\":\"a\"}");
      BindRequest bind =
          BindRequest.newBuilder()
              .setCall(
                  Call.newBuilder()
                      .setPurpose(Purpose.PURPOSE_DECIDE)
                      .setReads(sha256(ByteString.EMPTY))
                      .setArgs(args)
                      .setArgsSha256(sha256(args)))
              .setNamespace("system")
              .setName("web")
              .setUid("u")
              .setNode("n")
              .build();
      var response = PolicyServiceGrpc.newBlockingStub(channel).bind(bind);
      assertEquals(BindOutcome.BIND_OUTCOME_DECLINED, response.getOutcome());
    } finally {
      channel.shutdownNow();
      process.destroy();
      assertTrue(process.waitFor(60, TimeUnit.SECONDS));
      assertEquals(0, process.exitValue());
      assertFalse(process.isAlive());
    }
  }
}
