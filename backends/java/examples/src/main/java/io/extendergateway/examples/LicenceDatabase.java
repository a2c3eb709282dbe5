package io.extendergateway.examples;

import io.extendergateway.policy.NotReadyException;
import java.lang.System.Logger.Level;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * The licences in a database, by JDBC. They are read in the background, so a call never waits for
 * the database; leases are taken in a transaction.
 */
final class LicenceDatabase implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(LicenceDatabase.class.getName());

  /**
   * Of each table: about 20 MB of memory. A larger one is refused, and what was read before gets
   * stale.
   */
  private static final int MAX_ROWS = 100_000;

  private static final int QUERY_SECONDS = 5;

  private static final String LICENCES = "SELECT product, host_group, seats FROM licences";
  private static final String LEASES = "SELECT pod_uid, product, host_group FROM leases";

  /** Locks the row, so that leases of one product and host group are taken one after the other. */
  private static final String SEATS =
      "SELECT seats FROM licences WHERE product = ? AND host_group = ? FOR UPDATE";

  private static final String TAKEN =
      "SELECT COUNT(*) FROM leases WHERE product = ? AND host_group = ? AND pod_uid <> ?";
  private static final String RELEASE = "DELETE FROM leases WHERE pod_uid = ?";
  private static final String TAKE =
      "INSERT INTO leases (pod_uid, product, host_group, taken_at) VALUES (?, ?, ?, CURRENT_TIMESTAMP)";
  private static final String HELD = "SELECT product, host_group FROM leases WHERE pod_uid = ?";

  private final Connections connections;
  private final Duration staleAfter;

  /** In nanoseconds, from any beginning. */
  private final LongSupplier clock;

  private final ScheduledExecutorService reader =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "licences");
            thread.setDaemon(true);
            return thread;
          });

  private volatile Seats latest;

  /** Why the last reading failed; {@code null} if it did not. */
  private volatile String failure = "they have not been read yet";

  /** Opens connections: {@code DriverManager}, or a pool. */
  interface Connections {
    Connection open() throws SQLException;
  }

  /** One product in one host group. */
  record Licence(String product, String hostGroup) {}

  /** What was read at one time. */
  record Seats(Map<Licence, Integer> free, Map<String, Licence> leases, long readAt) {
    /** How many seats are free for this pod, its own included. */
    int freeFor(String podUid, Licence licence) {
      int own = licence.equals(leases.get(podUid)) ? 1 : 0;
      return free.getOrDefault(licence, 0) + own;
    }
  }

  /** How taking a seat ended. */
  enum Lease {
    TAKEN,
    HELD_BEFORE,
    NONE_FREE
  }

  LicenceDatabase(
      Connections connections, Duration refresh, Duration staleAfter, LongSupplier clock) {
    this.clock = clock;
    this.connections = connections;
    this.staleAfter = staleAfter;
    Future<?> unused =
        reader.scheduleWithFixedDelay(this::refresh, 0, refresh.toMillis(), TimeUnit.MILLISECONDS);
  }

  /** The seats, if they are not too old. */
  Seats seats() throws NotReadyException {
    Seats seats = latest;
    if (seats == null) {
      throw new NotReadyException("the licences cannot be read: " + failure);
    }
    long age = clock.getAsLong() - seats.readAt;
    if (age > staleAfter.toNanos()) {
      throw new NotReadyException(
          "the licences were read %ds ago, expected at most %ds: %s"
              .formatted(
                  TimeUnit.NANOSECONDS.toSeconds(age),
                  staleAfter.toSeconds(),
                  Objects.requireNonNullElse(failure, "the reader is late")));
    }
    return seats;
  }

  synchronized void refresh() {
    String before = failure;
    try {
      latest = read();
      failure = null;
    } catch (SQLException | RuntimeException wrong) {
      failure = wrong.getMessage();
    }
    if (!Objects.equals(before, failure)) {
      String text =
          failure == null
              ? "the licences have been read"
              : "the licences cannot be read: " + failure;
      LOG.log(failure == null ? Level.INFO : Level.WARNING, text);
    }
  }

  private Seats read() throws SQLException {
    long begin = clock.getAsLong();
    try (Connection connection = connections.open()) {
      // Both tables as of one moment.
      connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      connection.setAutoCommit(false);
      Map<Licence, Integer> free = new HashMap<>();
      Map<String, Licence> leases = new HashMap<>();
      try (Statement statement = connection.createStatement()) {
        statement.setQueryTimeout(QUERY_SECONDS);
        statement.setMaxRows(MAX_ROWS + 1);
        try (ResultSet rows = statement.executeQuery(LICENCES)) {
          while (rows.next()) {
            free.put(new Licence(rows.getString(1), rows.getString(2)), rows.getInt(3));
          }
        }
        try (ResultSet rows = statement.executeQuery(LEASES)) {
          while (rows.next()) {
            Licence licence = new Licence(rows.getString(2), rows.getString(3));
            leases.put(rows.getString(1), licence);
            free.computeIfPresent(licence, (held, seats) -> seats - 1);
          }
        }
      }
      connection.rollback();
      if (free.size() > MAX_ROWS || leases.size() > MAX_ROWS) {
        throw new SQLException("a table has more than %d rows".formatted(MAX_ROWS));
      }
      return new Seats(Map.copyOf(free), Map.copyOf(leases), begin);
    }
  }

  /**
   * Takes a seat for the pod, unless it holds one. A lease of the pod in another host group ends.
   */
  Lease take(String podUid, Licence licence) throws SQLException {
    try (Connection connection = connections.open()) {
      connection.setAutoCommit(false);
      try {
        Lease lease = take(connection, podUid, licence);
        if (lease == Lease.TAKEN) {
          connection.commit();
        } else {
          connection.rollback();
        }
        return lease;
      } catch (SQLException | RuntimeException failed) {
        connection.rollback();
        throw failed;
      }
    }
  }

  private static Lease take(Connection connection, String podUid, Licence licence)
      throws SQLException {
    int seats = number(connection, SEATS, licence.product, licence.hostGroup);
    if (licence.equals(held(connection, podUid))) {
      return Lease.HELD_BEFORE;
    }
    if (number(connection, TAKEN, licence.product, licence.hostGroup, podUid) >= seats) {
      return Lease.NONE_FREE;
    }
    update(connection, RELEASE, podUid);
    update(connection, TAKE, podUid, licence.product, licence.hostGroup);
    return Lease.TAKEN;
  }

  /** Ends the lease of the pod. */
  void release(String podUid) throws SQLException {
    try (Connection connection = connections.open()) {
      update(connection, RELEASE, podUid);
    }
  }

  private static Licence held(Connection connection, String podUid) throws SQLException {
    try (PreparedStatement statement = prepare(connection, HELD, podUid);
        ResultSet rows = statement.executeQuery()) {
      return rows.next() ? new Licence(rows.getString(1), rows.getString(2)) : null;
    }
  }

  /** The number in the first row; 0 if there is none. */
  private static int number(Connection connection, String query, String... values)
      throws SQLException {
    try (PreparedStatement statement = prepare(connection, query, values);
        ResultSet rows = statement.executeQuery()) {
      return rows.next() ? rows.getInt(1) : 0;
    }
  }

  private static void update(Connection connection, String sql, String... values)
      throws SQLException {
    try (PreparedStatement statement = prepare(connection, sql, values)) {
      statement.executeUpdate();
    }
  }

  private static PreparedStatement prepare(Connection connection, String sql, String... values)
      throws SQLException {
    PreparedStatement statement = connection.prepareStatement(sql);
    try {
      statement.setQueryTimeout(QUERY_SECONDS);
      for (int at = 0; at < values.length; at++) {
        statement.setString(at + 1, values[at]);
      }
      return statement;
    } catch (SQLException failed) {
      statement.close();
      throw failed;
    }
  }

  @Override
  public void close() {
    reader.shutdownNow();
  }
}
