/**
 * Cost and opening hours by node pool: the cheapest pool that is open is the best.
 *
 * Both verbs are pure, although they depend on the clock. An answer is a function of the args, the pod, the node, and the
 * state of the pools: which are open, and for how many steps of five minutes. The revision names that state, as it would
 * name a rule file, so the gateway drops its cached answers when a pool opens or closes. It asks for the revision once a
 * second: for that long, an answer of before may still be used.
 */

import { createHash } from 'node:crypto';

import {
  args,
  Backend,
  Info,
  type Node,
  type NodeKey,
  type Pod,
  type PodKey,
  Policy,
  Reads,
  Scale,
  Verb,
  Verdict,
} from '@extender-gateway/policy';

import { hoursSchema } from './hours.js';

const VERSION = '1.0.0';

const MINUTE = 60_000;

/** The time until a pool closes counts in whole steps, rounded down, so that answers can be cached meanwhile. */
const STEP = 5 * MINUTE;

/** The largest score of the contract. */
const MOST = 2 ** 31 - 1;

/** Prices are counted in millionths. */
const MILLIONTHS = 1_000_000;

/** A duration such as 90m, 2h or 1h30m, in milliseconds; undefined if it is none. */
function duration(text: string): number | undefined {
  const [, hours, minutes] = /^(?=\d)(?:(\d{1,5})h)?(?:(\d{1,6})m)?$/.exec(text) ?? [];
  return hours === undefined && minutes === undefined
    ? undefined
    : (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * MINUTE;
}

const durationSchema = args.string().map((text) => {
  const milliseconds = duration(text);
  if (milliseconds === undefined) {
    throw new Error(`invalid duration "${text}", expected hours and minutes such as 1h30m`);
  }
  return milliseconds;
});

const priceFields = {
  /** An hour, in any currency. */
  price: args.number({ min: 0, max: 1_000_000 }),
  per: args.oneOf('node', 'cpu').default('node'),
};

const pool = args.object({
  ...priceFields,
  /** Always open without. */
  hours: hoursSchema.optional(),
});

const treatment = args.oneOf('reject', 'avoid');

const batch = args.object({
  /** The label of batch pods, and its value. */
  label: args.string({ min: 1 }),
  value: args.string(),
  /** The annotation with which a pod says how long it expects to run. */
  annotation: args.string({ min: 1 }),
  /** A pod that does not say it avoids pools that close within this time. */
  closing: durationSchema,
  treatment: treatment.default('avoid'),
});

/** The args of the policy. */
export const schema = args.object({
  /** The label of nodes that names their pool. */
  label: args.string({ min: 1 }).default('cloud.google.com/gke-nodepool'),
  pools: args.dictionary(pool),
  /** The price of nodes of other pools. Without, they cost as much as the dearest pool. */
  others: args.object(priceFields).optional(),
  /** Outside of the hours of its pool, a node is rejected, or its price is multiplied. */
  outside: treatment.default('reject'),
  /** By how much the price of a pool to avoid is multiplied. */
  factor: args.integer({ min: 2, max: 1000 }).default(10),
  batch: batch.optional(),
});

type Args = args.Infer<typeof schema>;
type Price = Pick<args.Infer<typeof pool>, keyof typeof priceFields>;

/** Milliseconds since 1970. */
export type Clock = () => number;

const CLOSED = Verdict.reject('node pool is closed').byRule('hours').unresolvable();
const CLOSING = Verdict.reject('node pool closes before the pod ends').byRule('closing').unresolvable();

/** Steps until each pool closes: 0 or more if it is open, undefined if it is closed. */
type Remaining = ReadonlyMap<string, number | undefined>;

/** The state of the pools at an instant. */
interface PoolStates {
  readonly remaining: Remaining;
  /** It is the same from the one instant to before the other. */
  readonly from: number;
  readonly until: number;
}

function statesAt({ pools, batch: hasBatch }: Args, instant: number): PoolStates {
  const remaining = new Map<string, number | undefined>();
  let until = Infinity;
  for (const [name, { hours }] of pools) {
    const state = hours?.at(instant) ?? { isOpen: true, until: Infinity };
    const left = state.until - instant;
    // Without batch pods nothing depends on how long a pool stays open.
    const steps = hasBatch === undefined ? Infinity : Math.floor(left / STEP);
    remaining.set(name, state.isOpen ? steps : undefined);
    const counts = state.isOpen && Number.isFinite(steps) && steps > 0;
    until = Math.min(until, counts ? state.until - steps * STEP + 1 : state.until);
  }
  return { remaining, from: instant, until };
}

/** Names the state of the pools, equally on each replica. */
function revisionOf(remaining: Remaining): string {
  const states = [...remaining].map(([name, steps]) => [
    name,
    steps === undefined ? 'closed' : String(steps),
  ]);
  const hash = createHash('sha256').update(JSON.stringify(states)).digest('hex');
  return `${VERSION}-${hash.slice(0, 16)}`;
}

/** The policy in one state of the pools. */
export class NodeCost extends Policy {
  private readonly states: PoolStates;
  private readonly reads = new Reads();
  private readonly pool: NodeKey;
  private readonly batchLabel: PodKey | undefined;
  private readonly duration: PodKey | undefined;

  constructor(
    private readonly options: Args,
    private readonly clock: Clock = Date.now,
  ) {
    super();
    this.states = statesAt(options, clock());
    this.pool = this.reads.nodeLabel(options.label);
    if (this.needsCpus) {
      this.reads.node('allocatable');
    }
    this.batchLabel = options.batch && this.reads.podLabel(options.batch.label);
    this.duration = options.batch && this.reads.podAnnotation(options.batch.annotation);
  }

  override info(): Info {
    // The same for both verbs, so that scores come with the verdicts.
    const verb = Verb.perNode().pure().reads(this.reads);
    return new Info('node-cost', VERSION)
      .revision(revisionOf(this.states.remaining))
      .filters(verb)
      .scores(verb, Scale.between(0, MOST).normalize('minMax').reversed());
  }

  /** The policy in the state of the pools now. */
  override current(): Policy {
    const now = this.clock();
    const { from, until } = this.states;
    // A clock that was set back is in another state, too.
    return from <= now && now < until ? this : new NodeCost(this.options, this.clock);
  }

  override filter(pod: Pod, node: Node): Verdict {
    const { outside, batch: rules } = this.options;
    const name = node.get(this.pool);
    if (outside === 'reject' && this.isClosed(name)) {
      return CLOSED;
    }
    return rules?.treatment === 'reject' && this.closesTooSoon(pod, name) ? CLOSING : Verdict.accept;
  }

  /** The price of a CPU for an hour, in millionths: comparable for pools of nodes of different sizes. */
  override score(pod: Pod, node: Node): number {
    const name = node.get(this.pool);
    const isAvoided = this.isClosed(name) || this.closesTooSoon(pod, name);
    const price = this.priceOf(name, node) * (isAvoided ? this.options.factor : 1);
    return Math.min(Math.round(price * MILLIONTHS), MOST);
  }

  private isClosed(name: string | undefined): boolean {
    const { remaining } = this.states;
    return name !== undefined && remaining.has(name) && remaining.get(name) === undefined;
  }

  /** Whether a batch pod would still run when an open pool closes. */
  private closesTooSoon(pod: Pod, name: string | undefined): boolean {
    const { batchLabel, duration: annotation, options, states } = this;
    const rules = options.batch;
    const steps = name === undefined ? undefined : states.remaining.get(name);
    if (rules === undefined || batchLabel === undefined || annotation === undefined || steps === undefined) {
      return false;
    }
    const isBatch = pod.get(batchLabel) === rules.value;
    return isBatch && (duration(pod.get(annotation) ?? '') ?? rules.closing) > steps * STEP;
  }

  private priceOf(name: string | undefined, node: Node): number {
    const { pools, others } = this.options;
    const known = (name === undefined ? undefined : pools.get(name)) ?? others;
    if (known !== undefined) {
      return perCpu(known, node);
    }
    return Math.max(0, ...[...pools.values()].map((price) => perCpu(price, node)));
  }

  /** Whether a price is one of whole nodes. */
  private get needsCpus(): boolean {
    const { pools, others } = this.options;
    return [...pools.values(), ...(others === undefined ? [] : [others])].some(({ per }) => per === 'node');
  }
}

/** The price of a CPU for an hour. A node that does not report its CPUs counts as one with a single CPU. */
function perCpu({ price, per }: Price, node: Node): number {
  if (per === 'cpu') {
    return price;
  }
  const milliCpu = Number(node.allocatable?.milliCpu ?? 0n);
  return milliCpu > 0 ? price / (milliCpu / 1000) : price;
}

/** The policy for the operator's args. */
export function nodeCost(clock: Clock = Date.now): Backend {
  return Backend.configured(schema, (options) => new NodeCost(options, clock));
}
