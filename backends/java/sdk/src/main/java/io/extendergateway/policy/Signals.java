package io.extendergateway.policy;

import java.lang.reflect.Proxy;
import java.util.concurrent.Semaphore;

/**
 * The signals that stop the process. A shutdown hook cannot end the process with status 0 and does
 * not see a second signal; the class that can is not a part of the Java platform's specification,
 * hence the reflection.
 */
final class Signals {
  private static final int AT_ONCE = 0;

  private final Semaphore received = new Semaphore(0);
  private boolean stopping;

  /** Watches SIGTERM (Kubernetes) and SIGINT (a terminal) from now on. */
  static Signals watch() {
    Signals signals = new Signals();
    try {
      Class<?> signal = Class.forName("sun.misc.Signal");
      Class<?> handler = Class.forName("sun.misc.SignalHandler");
      Object proxy =
          Proxy.newProxyInstance(
              Signals.class.getClassLoader(),
              new Class<?>[] {handler},
              (self, method, arguments) -> {
                if (method.getName().equals("handle")) {
                  signals.received();
                }
                return null;
              });
      for (String name : new String[] {"TERM", "INT"}) {
        Object watched = signal.getConstructor(String.class).newInstance(name);
        signal.getMethod("handle", signal, handler).invoke(null, watched, proxy);
      }
    } catch (ReflectiveOperationException | RuntimeException unavailable) {
      Failures.LOG.log(
          System.Logger.Level.WARNING,
          "signals cannot be watched: "
              + unavailable
              + "; calls in progress do not finish when the process is stopped");
    }
    return signals;
  }

  private synchronized void received() {
    if (stopping) {
      // The second one ends the process at once.
      Runtime.getRuntime().halt(AT_ONCE);
    }
    stopping = true;
    received.release();
  }

  /** Waits for the first one. */
  void await() {
    received.acquireUninterruptibly();
  }
}
