package policy;

import io.extendergateway.policy.Backend;
import io.extendergateway.policy.Info;
import io.extendergateway.policy.Node;
import io.extendergateway.policy.NodeKey;
import io.extendergateway.policy.Pod;
import io.extendergateway.policy.Policy;
import io.extendergateway.policy.PolicyServer;
import io.extendergateway.policy.Reads;
import io.extendergateway.policy.Verb;
import io.extendergateway.policy.Verdict;
import java.util.List;

/**
 * Rejects nodes of closed zones. The operator's args name the label of the zone and the closed zones:
 * {@code {label: topology.kubernetes.io/zone, closed: [eu-1a]}}.
 */
public final class Main implements Policy {
  /** The operator's args. */
  public record Args(String label, List<String> closed) {}

  private final Args args;
  // Only this label is sent, and pods for which it is the same share cached answers.
  private final Reads reads = new Reads();
  private final NodeKey zone;

  Main(Args args) {
    this.args = args;
    this.zone = reads.nodeLabel(args.label());
  }

  static Backend backend() {
    return Backend.configured(Args.class, Main::new);
  }

  @Override
  public Info info() {
    return Info.of("{{name}}", "0.1.0").filters(Verb.perNode().pure().reads(reads));
  }

  @Override
  public Verdict filter(Pod pod, Node node) {
    boolean closed = node.get(zone).filter(args.closed()::contains).isPresent();
    return closed ? Verdict.reject("zone is closed").unresolvable() : Verdict.accept();
  }

  public static void main(String[] arguments) {
    PolicyServer.run(arguments, backend());
  }
}
