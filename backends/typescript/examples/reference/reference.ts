/** The policy that every language has, so that the answers of all can be compared. */

import {
  args,
  Backend,
  Bind,
  type BindAsk,
  BindFailed,
  type Candidate,
  Eviction,
  Info,
  type Node,
  type Pod,
  PodsBy,
  Policy,
  Reads,
  Scale,
  Verb,
  Verdict,
} from '@extender-gateway/policy';

const schema = args.object({
  /** Nodes of this zone are closed. */
  zone: args.string(),
  /** The most pods of one owner on a node. */
  most: args.integer({ min: 1, max: 1000 }).default(3),
});

const nodesReads = new Reads().node('taints', 'allocatable', 'name').pod('requests', 'tolerations');
const zone = nodesReads.nodeLabel('zone');
const app = nodesReads.podLabel('app');
const byOwner = nodesReads.podsBy(PodsBy.owner);

const preemptReads = new Reads().pod('priority');

const CLOSED = Verdict.reject('zone is closed').byRule('zone');
const TAINTED = Verdict.reject('taint is not tolerated').byRule('taints');
const SMALL = Verdict.reject('not enough CPU').byRule('cpu').preemptionMayHelp();
const CROWDED = Verdict.reject('too many pods of one owner').byRule('owner');

export class Reference extends Policy {
  constructor(private readonly options: args.Infer<typeof schema>) {
    super();
  }

  override info(): Info {
    const verb = Verb.perNode().pure().reads(nodesReads);
    return new Info('reference', '1')
      .revision('reference-1')
      .filters(verb)
      .scores(verb, Scale.between(-1000, 1_000_000).normalize('minMax'))
      .preempts(Verb.perNode().view('name').reads(preemptReads))
      .binds(new Reads())
      .shows('/args', 'the args, with their defaults', () => this.options);
  }

  override filter(pod: Pod, node: Node): Verdict {
    if (node.get(zone) === this.options.zone) {
      return CLOSED;
    }
    const hard = node.taints.filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
    if (hard.some((taint) => !pod.tolerates(taint))) {
      return TAINTED;
    }
    if (pod.requests.milliCpu > (node.allocatable?.milliCpu ?? 0n)) {
      return SMALL;
    }
    const like = node.podsLike(byOwner, pod);
    return like !== undefined && like.atMost >= this.options.most ? CROWDED : Verdict.accept;
  }

  override score(pod: Pod, node: Node): number {
    const milliCpu = clamp(Number(node.allocatable?.milliCpu ?? 0n), 0, 2_000_000_000);
    const wanted = pod.get(app);
    const bonus = wanted !== undefined && wanted === node.get(zone) ? 10 : 0;
    return clamp(Math.trunc(milliCpu / 100) - 50 * node.taints.length + bonus, -1000, 1_000_000);
  }

  override preempt(pod: Pod, candidate: Candidate): Eviction {
    return Eviction.of(candidate, (victim) => victim.pod !== undefined && victim.pod.priority < pod.priority);
  }

  override bind({ namespace, node }: BindAsk): Bind {
    if (namespace === 'system') {
      return Bind.declined('namespace system is bound elsewhere');
    }
    if (node === 'broken') {
      throw new BindFailed('node broken refuses pods');
    }
    return Bind.bound;
  }
}

export const reference = Backend.configured(schema, (options) => new Reference(options));

function clamp(value: number, min: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}
