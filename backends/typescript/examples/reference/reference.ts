/** The policy that every language has, so that the answers of all can be compared. */

import {
  args,
  Backend,
  Bind,
  type BindAsk,
  BindFailed,
  type Candidate,
  Eviction,
  Hook,
  Info,
  type Node,
  NodeChange,
  type Pod,
  PodChange,
  PodsBy,
  Policy,
  Reads,
  Scale,
  type ScoreChanges,
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

const podReads = new Reads();
const podApp = podReads.podLabel('app');

const hookReads = new Reads();
const hookApp = hookReads.podLabel('app');
const hookZone = hookReads.nodeLabel('zone');

const CLOSED = Verdict.reject('zone is closed').byRule('zone').unresolvable();
const TAINTED = Verdict.reject('taint is not tolerated').byRule('taints').unresolvable();
const SMALL = Verdict.reject('not enough CPU').byRule('cpu');
const CROWDED = Verdict.reject('too many pods of one owner').byRule('owner').unresolvable();

const NO_APP = new PodChange({ removeLabels: ['app'], reason: 'the zone is no app' });
const ZONELESS = new NodeChange({
  addTaints: [{ key: 'zone', effect: 'PreferNoSchedule' }],
  removeTaints: [{ key: 'zoneless' }],
});
const RESERVED = new NodeChange({
  addAllocatable: { milliCpu: 1000, others: { 'example.com/slots': 1 } },
  reason: 'reserved for the app',
});
const CLOSES = new NodeChange({
  setLabels: { zone: 'closed' },
  addUsage: { requested: { milliCpu: -100, pods: -1 } },
  reason: 'closed',
});
const UNZONED = new NodeChange({ removeLabels: ['zone'] });

export class Reference extends Policy {
  private readonly more: PodChange;
  private readonly moved: PodChange;

  constructor(private readonly options: args.Infer<typeof schema>) {
    super();
    this.more = new PodChange({
      addRequests: { milliCpu: 500 },
      setNodeSelector: { zone: options.zone },
      addTolerations: [{ key: 'app', operator: 'Exists' }],
      reason: 'apps need more',
    });
    this.moved = new PodChange({ setLabels: { app: options.zone } });
  }

  override info(): Info {
    const verb = Verb.perNode().pure().reads(nodesReads);
    return new Info('reference', '1')
      .revision('reference-1')
      .filters(verb)
      .scores(verb, Scale.between(-1000, 1_000_000).normalize('minMax'))
      .preempts(Verb.perNode().reads(preemptReads))
      .binds()
      .beforeFilter(
        Hook.changes('podLabels', 'podNodeSelector', 'podTolerations', 'podRequests').pure().reads(podReads),
      )
      .beforeFilterNodes(Hook.changes('nodeAllocatable', 'nodeTaints').pure().reads(hookReads))
      .beforeScore(Hook.changes('podLabels', 'nodeLabels', 'nodeUsage').reads(hookReads))
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

  override beforeFilter(pod: Pod): PodChange | undefined {
    const wanted = pod.get(podApp);
    if (wanted === undefined) {
      return undefined;
    }
    return wanted === this.options.zone ? NO_APP : this.more;
  }

  override beforeFilterNode(pod: Pod, node: Node): NodeChange | undefined {
    const there = node.get(hookZone);
    if (there === undefined) {
      return ZONELESS;
    }
    return there === pod.get(hookApp) ? RESERVED : undefined;
  }

  override beforeScore(pod: Pod, nodes: readonly Node[]): ScoreChanges {
    return {
      pod: pod.get(hookApp) === undefined ? undefined : this.moved,
      nodes: nodes.map((node) => this.beforeScoreNode(node)),
    };
  }

  private beforeScoreNode(node: Node): NodeChange | undefined {
    const there = node.get(hookZone);
    if (there === undefined) {
      return UNZONED;
    }
    return there === this.options.zone ? CLOSES : undefined;
  }
}

export const reference = Backend.configured(schema, (options) => new Reference(options));

function clamp(value: number, min: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}
