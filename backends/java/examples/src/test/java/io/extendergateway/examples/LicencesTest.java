package io.extendergateway.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.extendergateway.examples.LicenceDatabase.Lease;
import io.extendergateway.examples.LicenceDatabase.Licence;
import io.extendergateway.policy.Backend;
import io.extendergateway.policy.Bind;
import io.extendergateway.policy.Verdict;
import io.extendergateway.policy.testing.NoAnswerException;
import io.extendergateway.policy.testing.TestNode;
import io.extendergateway.policy.testing.TestPod;
import io.extendergateway.policy.testing.Testing;
import io.extendergateway.policy.testing.Testing.Rejected;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The policy with a real database and a small apiserver. */
class LicencesTest {
  private static final String ARGS = "{\"productLabel\":\"product\",\"hostGroupLabel\":\"group\"}";
  private static final String NONE_FREE = "no licence seat is free in the node's host group";
  private static final Licence CAD_EAST = new Licence("cad", "east");

  @TempDir private Path folder;
  private final List<AutoCloseable> open = new ArrayList<>();
  private final AtomicLong now = new AtomicLong();
  private String url;

  @BeforeEach
  void create() throws Exception {
    url = "jdbc:h2:mem:licences;DB_CLOSE_DELAY=-1";
    sql("DROP ALL OBJECTS");
    tables();
  }

  @AfterEach
  void close() throws Exception {
    for (AutoCloseable one : open) {
      one.close();
    }
  }

  private void tables() throws Exception {
    try (var script = Licences.class.getResourceAsStream("/licences.sql")) {
      sql(new String(script.readAllBytes(), StandardCharsets.UTF_8));
    }
    sql("INSERT INTO licences VALUES ('cad', 'east', 2), ('cad', 'west', 5), ('sim', 'west', 1)");
  }

  private void sql(String text) throws SQLException {
    try (Connection connection = DriverManager.getConnection(url);
        Statement statement = connection.createStatement()) {
      statement.execute(text);
    }
  }

  private void lease(String uid, String product, String group) throws SQLException {
    sql(
        "INSERT INTO leases VALUES ('%s', '%s', '%s', CURRENT_TIMESTAMP)"
            .formatted(uid, product, group));
  }

  private LicenceDatabase database(Duration staleAfter) {
    LicenceDatabase database =
        new LicenceDatabase(
            () -> DriverManager.getConnection(url), Duration.ofHours(1), staleAfter, now::get);
    open.add(database);
    database.refresh();
    return database;
  }

  private static Backend policy(LicenceDatabase database, Optional<Apiserver> apiserver) {
    Backend backend =
        Backend.configured(
            LicencePolicy.Args.class, args -> new LicencePolicy(database, apiserver, args));
    return Testing.withArgs(backend, ARGS);
  }

  private static final List<TestNode> NODES =
      List.of(
          new TestNode("e").label("group", "east"),
          new TestNode("w").label("group", "west"),
          new TestNode("s").label("group", "south"),
          new TestNode("x"));

  private static TestPod pod(String uid) {
    return new TestPod("shop").identity("web", uid).label("product", "cad");
  }

  private static Rejected rejected(String node, String reason) {
    return new Rejected(node, Verdict.reject(reason).byRule("cad").unresolvable());
  }

  @Test
  void nodesWithoutAFreeSeatAreRejectedAndTheOthersScoredByFreeSeats() throws Exception {
    lease("u1", "cad", "east");
    lease("u2", "cad", "east");
    lease("u3", "cad", "west");
    Backend policy = policy(database(Duration.ofMinutes(1)), Optional.empty());
    assertEquals(
        List.of(
            rejected("e", NONE_FREE),
            rejected("s", NONE_FREE),
            rejected("x", "node is in no host group with licences")),
        Testing.filter(policy, pod("new"), NODES));
    assertEquals(List.of(0, 4, 0, 0), Testing.score(policy, pod("new"), NODES));
    // A pod that holds a seat already may use it.
    assertEquals("s", Testing.filter(policy, pod("u1"), NODES).get(0).node());
    assertEquals(List.of(1, 4, 0, 0), Testing.score(policy, pod("u1"), NODES));
    // Other pods are not concerned.
    assertEquals(List.of(), Testing.filter(policy, new TestPod("shop"), NODES));
  }

  @Test
  void aDatabaseInAFileIsReadAgainAndGetsStale() throws Exception {
    url = "jdbc:h2:file:" + folder.resolve("licences");
    tables();
    LicenceDatabase database = database(Duration.ofSeconds(30));
    Backend policy = policy(database, Optional.empty());
    assertEquals(List.of(2, 5, 0, 0), Testing.score(policy, pod("new"), NODES));
    sql("UPDATE licences SET seats = 7 WHERE product = 'cad'");
    database.refresh();
    assertEquals(List.of(7, 7, 0, 0), Testing.score(policy, pod("new"), NODES));
    sql("DROP TABLE leases");
    database.refresh();
    assertEquals(List.of(7, 7, 0, 0), Testing.score(policy, pod("new"), NODES));
    now.set(Duration.ofSeconds(31).toNanos());
    NoAnswerException stale =
        assertThrows(NoAnswerException.class, () -> Testing.score(policy, pod("new"), NODES));
    assertTrue(
        stale
            .getMessage()
            .contains("read 31s ago, expected at most 30s: Table \"LEASES\" not found"),
        stale.getMessage());
  }

  @Test
  void withoutADatabaseThePolicyIsNotReady() {
    LicenceDatabase database =
        new LicenceDatabase(
            () -> {
              throw new SQLException("connection refused");
            },
            Duration.ofHours(1),
            Duration.ofMinutes(1),
            now::get);
    open.add(database);
    database.refresh();
    NoAnswerException failure =
        assertThrows(
            NoAnswerException.class,
            () -> Testing.filter(policy(database, Optional.empty()), pod("new"), NODES));
    assertEquals("the licences cannot be read: connection refused", failure.getMessage());
  }

  @Test
  void wrongArgsAreNamed() {
    LicenceDatabase database = database(Duration.ofMinutes(1));
    Backend backend =
        Backend.configured(
            LicencePolicy.Args.class, args -> new LicencePolicy(database, Optional.empty(), args));
    for (Map.Entry<String, String> wrong :
        Map.of(
                "{}",
                "args: missing field `hostGroupLabel`",
                "{\"hostGroupLabel\":\"g\"}",
                "args: expected either productLabel or productAnnotation",
                "{\"hostGroupLabel\":\"\",\"productLabel\":\"p\"}",
                "args.hostGroupLabel: is empty")
            .entrySet()) {
      NoAnswerException refused =
          assertThrows(NoAnswerException.class, () -> Testing.withArgs(backend, wrong.getKey()));
      assertTrue(refused.getMessage().contains(wrong.getValue()), refused.getMessage());
    }
  }

  @Test
  void concurrentBindsNeverTakeTheLastSeatTwice() throws Exception {
    LicenceDatabase database = database(Duration.ofMinutes(1));
    ExecutorService threads = Executors.newFixedThreadPool(8);
    try {
      List<Callable<Lease>> tasks = new ArrayList<>();
      for (int pod = 0; pod < 40; pod++) {
        String uid = "u" + pod;
        tasks.add(() -> database.take(uid, CAD_EAST));
      }
      List<Lease> leases = new ArrayList<>();
      for (Future<Lease> lease : threads.invokeAll(tasks)) {
        leases.add(lease.get());
      }
      assertEquals(2, leases.stream().filter(lease -> lease == Lease.TAKEN).count());
      assertEquals(38, leases.stream().filter(lease -> lease == Lease.NONE_FREE).count());
    } finally {
      threads.shutdownNow();
    }
  }

  /** Nodes `n-GROUP` of a group, and pods that are bound once. */
  private static final class SmallApiserver implements AutoCloseable {
    final HttpServer server;
    final Map<String, String> bound = new ConcurrentHashMap<>();
    final List<String> requests = new ArrayList<>();
    volatile int answer;

    SmallApiserver() throws IOException {
      server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
      server.createContext("/", this::answer);
      server.start();
    }

    Apiserver client() throws Exception {
      return new Apiserver(
          URI.create("http://127.0.0.1:" + server.getAddress().getPort()),
          Optional.empty(),
          Optional.empty());
    }

    private synchronized void answer(HttpExchange exchange) throws IOException {
      String path = exchange.getRequestURI().getPath();
      String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
      requests.add(exchange.getRequestMethod() + " " + path + " " + body);
      int status = 200;
      String json = "{}";
      if (path.startsWith("/api/v1/nodes/n-")) {
        String group = path.substring("/api/v1/nodes/n-".length());
        json = "{\"metadata\":{\"labels\":{\"group\":\"%s\"}}}".formatted(group);
      } else if (path.endsWith("/binding")) {
        String pod = path.substring(0, path.length() - "/binding".length());
        String node = body.replaceAll(".*\"kind\":\"Node\",\"name\":\"([^\"]*)\".*", "$1");
        status = answer != 0 ? answer : bound.putIfAbsent(pod, node) == null ? 201 : 409;
      } else {
        json =
            "{\"metadata\":{\"uid\":\"u1\"},\"spec\":{\"nodeName\":\"%s\"}}"
                .formatted(bound.getOrDefault(path, ""));
      }
      byte[] bytes = json.getBytes(StandardCharsets.UTF_8);
      exchange.sendResponseHeaders(status, bytes.length);
      exchange.getResponseBody().write(bytes);
      exchange.close();
    }

    @Override
    public void close() {
      server.stop(0);
    }
  }

  private int leases() throws SQLException {
    try (Connection connection = DriverManager.getConnection(url);
        Statement statement = connection.createStatement();
        var rows = statement.executeQuery("SELECT COUNT(*) FROM leases")) {
      return rows.next() ? rows.getInt(1) : -1;
    }
  }

  @Test
  void bindTakesALeaseAndCreatesTheBindingAndMayBeRepeated() throws Exception {
    SmallApiserver apiserver = new SmallApiserver();
    open.add(apiserver);
    Backend policy = policy(database(Duration.ofMinutes(1)), Optional.of(apiserver.client()));
    assertEquals(Bind.bound(), Testing.bind(policy, pod("u1"), "n-east"));
    assertEquals(1, leases());
    assertTrue(apiserver.requests.get(1).contains("\"uid\":\"u1\""), apiserver.requests.toString());
    assertEquals(Bind.bound(), Testing.bind(policy, pod("u1"), "n-east"));
    assertEquals(1, leases());
    assertEquals(
        Bind.declined("the pod needs no licence"),
        Testing.bind(policy, new TestPod("shop"), "n-east"));
    failed(policy, pod("u1"), "n-west", "the apiserver refused the Binding");
  }

  @Test
  void aRefusedBindingEndsTheLeaseAndAnUnknownEndKeepsIt() throws Exception {
    SmallApiserver apiserver = new SmallApiserver();
    open.add(apiserver);
    Backend policy = policy(database(Duration.ofMinutes(1)), Optional.of(apiserver.client()));
    apiserver.answer = 404;
    failed(policy, pod("u1"), "n-east", "the apiserver refused the Binding");
    assertEquals(0, leases());
    apiserver.answer = 503;
    failed(policy, pod("u1"), "n-east", "creating the Binding: the apiserver answered 503");
    assertEquals(1, leases());
    apiserver.answer = 0;
    lease("other", "cad", "east");
    failed(policy, pod("u9"), "n-east", NONE_FREE);
    assertEquals(Bind.bound(), Testing.bind(policy, pod("u1"), "n-east"));
    assertEquals(2, leases());
  }

  private static void failed(Backend policy, TestPod pod, String node, String text) {
    NoAnswerException failure =
        assertThrows(NoAnswerException.class, () -> Testing.bind(policy, pod, node));
    assertEquals(text, failure.getMessage());
  }
}
