package io.extendergateway.policy;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;

/** The future answer to a bind. Cancelling it cancels the policy's own future. */
final class Bound<T> extends CompletableFuture<T> {
  private final CompletionStage<?> policys;

  private Bound(CompletionStage<?> policys) {
    this.policys = policys;
  }

  static <S, T> Bound<T> of(CompletionStage<S> policys, Function<S, T> answer) {
    CallException.returned(policys, "bindAsync returned null");
    Bound<T> bound = new Bound<>(policys);
    policys
        .thenApply(answer)
        .whenComplete(
            (value, failure) -> {
              if (failure == null) {
                bound.complete(value);
              } else {
                bound.completeExceptionally(failure);
              }
            });
    return bound;
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    boolean cancelled = super.cancel(mayInterruptIfRunning);
    if (cancelled && policys instanceof CompletableFuture<?> future) {
      future.cancel(mayInterruptIfRunning);
    }
    return cancelled;
  }
}
