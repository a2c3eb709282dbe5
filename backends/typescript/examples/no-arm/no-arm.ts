/** Rejects arm64 nodes. */

import { Info, Policy, Reads, Verb, Verdict, type Node, type Pod } from '@extender-gateway/policy';

const reads = new Reads();
const arch = reads.nodeLabel('kubernetes.io/arch');

export class NoArm extends Policy {
  override info(): Info {
    return new Info('no-arm', '1.0.0').filters(Verb.perNode().pure().reads(reads));
  }

  override filter(_pod: Pod, node: Node): Verdict {
    return node.get(arch) === 'arm64'
      ? Verdict.reject('arm64 nodes are not in use yet').unresolvable()
      : Verdict.accept;
  }
}
