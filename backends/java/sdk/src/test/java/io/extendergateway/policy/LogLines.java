package io.extendergateway.policy;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.logging.Filter;
import java.util.logging.Logger;

/** What the SDK logs while this is open. */
final class LogLines implements AutoCloseable {
  final Queue<String> lines = new ConcurrentLinkedQueue<>();
  private final Logger logger = Logger.getLogger("io.extendergateway.policy");
  private final Filter before = logger.getFilter();

  LogLines() {
    logger.setFilter(
        record -> {
          lines.add("%s %s".formatted(record.getMessage(), record.getThrown()));
          return before == null || before.isLoggable(record);
        });
  }

  @Override
  public void close() {
    logger.setFilter(before);
  }
}
