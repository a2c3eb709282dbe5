package io.extendergateway.policy;

import io.extendergateway.policy.v1beta1.ErrorReason;
import io.extendergateway.policy.v1beta1.NodeReads;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * The tables of nodes that gateways keep here, so that calls name nodes by numbers. A table belongs
 * to its stream and is dropped with it; calls in progress keep the rows that they found. It is
 * found only by its random name, so several gateways, and several declarations of what is read,
 * never share one.
 */
final class Tables {
  /** Enough for 16 gateways with four tables each. */
  private static final int MAX_TABLES = 64;

  /** 15,000 nodes with their JSON are about 0.2 GB. */
  private static final long MAX_BYTES = Math.min(1L << 30, Runtime.getRuntime().maxMemory() / 2);

  final int maxTables;
  final long maxBytes;
  private final Map<String, Table> byName = new ConcurrentHashMap<>();
  private final AtomicLong bytes = new AtomicLong();
  private volatile boolean stopped;

  Tables() {
    this(MAX_TABLES, MAX_BYTES);
  }

  Tables(int maxTables, long maxBytes) {
    this.maxTables = maxTables;
    this.maxBytes = maxBytes;
  }

  /** The table of this name, if its stream is open; otherwise {@code null}. */
  Table find(String name) {
    return byName.get(name);
  }

  /** Adds a new table without rows, for a stream. */
  synchronized void open(Table table) {
    if (byName.containsKey(table.name)) {
      throw CallException.invalid(
          "table %s already has a stream; names of tables must be random", table.name);
    }
    if (byName.size() >= maxTables) {
      throw CallException.of(
              Status.Code.RESOURCE_EXHAUSTED,
              "this backend already holds %d tables, the maximum".formatted(maxTables))
          .because(ErrorReason.ERROR_REASON_OVERLOADED);
    }
    byName.put(table.name, table);
  }

  /** Drops a table whose stream has ended. */
  void close(Table table) {
    // While this backend stops, the tables stay for the calls that still arrive.
    if (!stopped) {
      byName.remove(table.name, table);
    }
    bytes.addAndGet(-table.clear());
  }

  void stop() {
    stopped = true;
  }

  /** Takes this many bytes, if they are left. */
  boolean take(long more) {
    for (long used = bytes.get(); used + more <= maxBytes; used = bytes.get()) {
      if (bytes.compareAndSet(used, used + more)) {
        return true;
      }
    }
    return false;
  }

  void release(long less) {
    bytes.addAndGet(-less);
  }

  int count() {
    return byName.size();
  }

  /** The rows of all tables. */
  long rows() {
    return byName.values().stream().mapToLong(Table::size).sum();
  }

  long bytes() {
    return bytes.get();
  }

  /** A row of a table, and the memory that it takes. */
  record Kept(Row row, long bytes) {}

  /** What one message changes. A removal wins over an upsert of the same id. */
  record Change(long version, Map<Integer, Kept> upserts, List<Integer> removed) {}

  /** Rows by id, at a version. */
  static final class Table {
    final String name;

    /** What the rows contain. */
    final NodeReads reads;

    private final ReadWriteLock lock = new ReentrantReadWriteLock();

    /** By hash, since ids are never reused: deleted nodes cost nothing, however many there were. */
    private final Map<Integer, Kept> byId = new HashMap<>();

    private long version;
    private boolean closed;

    Table(String name, NodeReads reads) {
      this.name = name;
      this.reads = reads;
    }

    /**
     * The rows with these ids, where 0 is the next one of the others; {@code null} if the table is
     * older than the version, or lacks one. Rows never change, so the lock is held only for the
     * look-up: a call sees all of a message or none.
     */
    List<Row> rows(long atLeast, List<Integer> ids, List<Row> inline) {
      List<Row> rows = new ArrayList<>(ids.size());
      int next = 0;
      lock.readLock().lock();
      try {
        if (Long.compareUnsigned(version, atLeast) < 0) {
          return null;
        }
        for (int at = 0; at < ids.size(); at++) {
          Integer id = ids.get(at);
          if (id == 0) {
            rows.add(inline.get(next++));
            continue;
          }
          Kept kept = byId.get(id);
          if (kept == null) {
            return null;
          }
          rows.add(kept.row);
        }
        return rows;
      } finally {
        lock.readLock().unlock();
      }
    }

    private int size() {
      lock.readLock().lock();
      try {
        return byId.size();
      } finally {
        lock.readLock().unlock();
      }
    }

    /** Applies the change at once, and returns how many bytes it has freed. */
    long apply(Change change) {
      long freed = 0;
      lock.writeLock().lock();
      try {
        version = change.version;
        for (Map.Entry<Integer, Kept> upsert : change.upserts.entrySet()) {
          Kept old = byId.put(upsert.getKey(), upsert.getValue());
          freed += old == null ? 0 : old.bytes;
        }
        for (Integer id : change.removed) {
          Kept old = byId.remove(id);
          freed += old == null ? 0 : old.bytes;
        }
        return freed;
      } finally {
        lock.writeLock().unlock();
      }
    }

    /**
     * The bytes of all rows, once: the stream has ended. The rows stay for calls that have found
     * this table.
     */
    private long clear() {
      lock.writeLock().lock();
      try {
        long all = closed ? 0 : byId.values().stream().mapToLong(Kept::bytes).sum();
        closed = true;
        return all;
      } finally {
        lock.writeLock().unlock();
      }
    }
  }
}
