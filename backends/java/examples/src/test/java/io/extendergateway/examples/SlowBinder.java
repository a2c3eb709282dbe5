package io.extendergateway.examples;

import io.extendergateway.policy.Bind;
import io.extendergateway.policy.BindAsk;
import io.extendergateway.policy.Info;
import io.extendergateway.policy.Policy;
import io.extendergateway.policy.PolicyServer;

/** Binds after a minute, and says when it begins. */
final class SlowBinder implements Policy {
  @Override
  public Info info() {
    return Info.of("slow", "1").binds();
  }

  @Override
  public Bind bind(BindAsk ask) throws InterruptedException {
    System.err.println("begun");
    Thread.sleep(60_000);
    return Bind.bound();
  }

  public static void main(String[] arguments) {
    PolicyServer.run(arguments, new SlowBinder());
  }
}
