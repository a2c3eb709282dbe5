package io.extendergateway.policy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.extendergateway.policy.v1beta1.GetInfoRequest;
import io.extendergateway.policy.v1beta1.WatchRequest;
import io.extendergateway.policy.v1beta1.WatchResponse;
import io.extendergateway.policy.v1beta1.WatchServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

/** WatchService over a socket. */
class WatchTest {
  /** What the policies of a test depend on. */
  private static final class World {
    volatile String revision = "1";
    volatile boolean ready = true;
    final AtomicInteger compared = new AtomicInteger();

    void awaitComparisons() {
      // The last one may not have ended.
      int more = compared.get() + 3;
      await(() -> compared.get() >= more);
    }
  }

  private record Changing(World world, String revision) implements Policy {
    @Override
    public Info info() {
      return Info.of("changing", "1").revision(revision).filters(Verb.perNode());
    }

    @Override
    public Verdict filter(Pod pod, Node node) {
      return Verdict.accept();
    }

    @Override
    public Policy current() {
      return revision.equals(world.revision) ? this : new Changing(world, world.revision);
    }

    @Override
    public void ready() throws NotReadyException {
      world.compared.incrementAndGet();
      if (!world.ready) {
        throw new NotReadyException("not yet");
      }
    }
  }

  /** A stream, and what has come back. */
  private static final class Watching extends ClientCall.Listener<WatchResponse> {
    final BlockingQueue<Object> received = new LinkedBlockingQueue<>();
    final ClientCall<WatchRequest, WatchResponse> call;

    Watching(Served served) {
      // The library sends nothing of a call with one message before that.
      var method =
          WatchServiceGrpc.getWatchMethod().toBuilder().setType(MethodType.BIDI_STREAMING).build();
      call = served.channel.newCall(method, CallOptions.DEFAULT);
      call.start(this, new Metadata());
      call.request(1_000);
    }

    Watching(Served served, String args) {
      this(served);
      call.sendMessage(WatchRequest.newBuilder().setArgs(ByteString.copyFromUtf8(args)).build());
      call.halfClose();
    }

    @Override
    public void onMessage(WatchResponse message) {
      received.add(message);
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      received.add(status);
    }

    void awaitMessage() throws InterruptedException {
      assertEquals(WatchResponse.getDefaultInstance(), received.poll(20, TimeUnit.SECONDS));
    }

    Status end() throws InterruptedException {
      Object last = received.poll(20, TimeUnit.SECONDS);
      assertNotNull(last);
      return (Status) last;
    }
  }

  private static void await(BooleanSupplier condition) {
    assertTimeoutPreemptively(
        Duration.ofSeconds(20),
        () -> {
          while (!condition.getAsBoolean()) {
            Thread.onSpinWait();
          }
        });
  }

  @Test
  void aMessageComesAtOnceAndAfterEachChange() throws Exception {
    World world = new World();
    Backend.Replaceable backend = Backend.replaceable(new Changing(world, "1"));
    try (Served served = Served.of(backend)) {
      var info = served.client.getInfo(GetInfoRequest.getDefaultInstance());
      assertTrue(info.getServicesList().contains(WatchServiceGrpc.SERVICE_NAME));
      Watching watching = new Watching(served, "");
      watching.awaitMessage();
      for (Runnable change :
          List.<Runnable>of(
              () -> backend.replace(new Declaring(Info.of("p", "1").filters(Verb.perNode()))),
              () -> backend.replace(new Changing(world, "1")),
              () -> world.revision = "2",
              () -> world.ready = false,
              () -> world.ready = true)) {
        change.run();
        watching.awaitMessage();
      }
      world.awaitComparisons();
      assertTrue(watching.received.isEmpty());
    }
  }

  @Test
  void anOpenStreamDoesNotDelayTheEndEvenIfThePolicyHangs() throws Exception {
    CountDownLatch hangs = new CountDownLatch(1);
    CountDownLatch never = new CountDownLatch(1);
    class Hanging implements Policy {
      volatile boolean asked;

      @Override
      public Info info() {
        return Info.of("hanging", "1").filters(Verb.perNode());
      }

      @Override
      public Verdict filter(Pod pod, Node node) {
        return Verdict.accept();
      }

      @Override
      public Policy current() {
        try {
          if (asked) {
            hangs.countDown();
            never.await();
          }
        } catch (InterruptedException stopped) {
          Thread.currentThread().interrupt();
        }
        asked = true;
        return this;
      }
    }

    try (Served served =
        Served.of(Backend.of(new Hanging()), Served.OPTIONS.drain(Duration.ofHours(1)))) {
      Watching watching = new Watching(served, "");
      watching.awaitMessage();
      assertTrue(hangs.await(20, TimeUnit.SECONDS));
      assertTimeoutPreemptively(Duration.ofSeconds(20), served.server::close);
      assertEquals(Status.Code.UNAVAILABLE, watching.end().getCode());
    }
  }

  @Test
  void nothingIsLeftWhenTheClientGoes() throws Exception {
    try (Served served = Served.of(new Changing(new World(), "1"))) {
      Watching watching = new Watching(served, "");
      watching.awaitMessage();
      assertEquals(1, served.server.openStreams());
      watching.call.cancel("gone", null);
      await(() -> served.server.openStreams() == 0);
      var comparing = served.server.watches;
      // On its one thread, where none of them is running.
      assertEquals(0, comparing.submit(() -> comparing.getQueue().size()).get());
    }
  }

  @Test
  void wrongRequestsAreAnsweredAsThoseOfGetInfo() throws Exception {
    try (Served served = Served.of(new Changing(new World(), "1"))) {
      for (String args : List.of("{\"a\":1}", "{", " ".repeat(Limits.ARGS_BYTES + 1))) {
        var request = GetInfoRequest.newBuilder().setArgs(ByteString.copyFromUtf8(args)).build();
        Status status = Served.failure(() -> served.client.getInfo(request));
        assertEquals(status.toString(), new Watching(served, args).end().toString());
      }
      Watching silent = new Watching(served);
      silent.call.halfClose();
      assertEquals(Status.Code.INVALID_ARGUMENT, silent.end().getCode());
      assertEquals(0, served.server.openStreams());
    }
  }

  @Test
  void streamsAreLimitedAlsoThoseWithoutAMessage() throws Exception {
    try (Served served = Served.of(new Changing(new World(), "1"))) {
      for (int open = 0; open < 255; open++) {
        Watching silent = new Watching(served);
        assertTrue(silent.received.isEmpty());
      }
      await(() -> served.server.openStreams() == 255);
      Watching last = new Watching(served, "");
      last.awaitMessage();
      assertEquals(Status.Code.RESOURCE_EXHAUSTED, new Watching(served, "").end().getCode());
      last.call.cancel("gone", null);
      await(() -> served.server.openStreams() == 255);
      new Watching(served, "").awaitMessage();
    }
  }

  @Test
  void aPolicyThatIsNoLongerKeptIsNotBuiltAgain() throws Exception {
    World world = new World();
    AtomicInteger built = new AtomicInteger();
    Backend backend =
        Backend.configured(
            args -> {
              built.incrementAndGet();
              return new Changing(world, "1");
            });
    try (Served served = Served.of(backend)) {
      Watching forgotten = new Watching(served, "{\"a\":0}");
      forgotten.awaitMessage();
      for (int other = 1; other <= 20; other++) {
        var args = ByteString.copyFromUtf8("{\"a\":%d}".formatted(other));
        for (int twice = 0; twice < 2; twice++) {
          var info = served.client.getInfo(GetInfoRequest.newBuilder().setArgs(args).build());
          assertEquals("changing", info.getName());
        }
      }
      Watching known = new Watching(served, "{\"a\":20}");
      known.awaitMessage();
      int before = built.get();
      // One thread compares for both.
      world.awaitComparisons();
      assertEquals(before, built.get());
      assertTrue(forgotten.received.isEmpty());
    }
  }
}
