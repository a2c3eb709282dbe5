package io.extendergateway.policy;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** A task whose thread is interrupted when its future is cancelled. */
final class Waiting<T> extends CompletableFuture<T> {
  /** The thread that works on it; guarded by this. */
  private Thread thread;

  private Waiting() {}

  static <T> CompletableFuture<T> run(Supplier<T> task, Executor executor) {
    Waiting<T> future = new Waiting<>();
    executor.execute(() -> future.answer(task));
    return future;
  }

  private void answer(Supplier<T> task) {
    synchronized (this) {
      if (isDone()) {
        return;
      }
      thread = Thread.currentThread();
    }
    T answer = null;
    Throwable failure = null;
    try {
      answer = task.get();
    } catch (Throwable thrown) {
      failure = thrown;
    }
    synchronized (this) {
      thread = null;
    }
    if (isCancelled() && Thread.interrupted()) {
      // The thread is used again: the interruption was meant for this task.
      return;
    }
    if (failure == null) {
      complete(answer);
    } else {
      completeExceptionally(failure);
    }
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    boolean cancelled = super.cancel(mayInterruptIfRunning);
    synchronized (this) {
      if (cancelled && thread != null) {
        thread.interrupt();
      }
    }
    return cancelled;
  }
}
