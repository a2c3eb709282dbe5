/** What a policy declares about itself, in one place. */

import type { VerbName } from './declaration/names.js';
import type { ChangedPart, Hook, HookFields } from './hook.js';
import { type IntrospectAsk, type ParameterOf, Shown } from './introspection.js';
import { Reads } from './reads.js';

/** How raw scores are normalized to 0 to 10, over the nodes of one prioritize call. The operator may override it. */
export type Normalization =
  /** Unchanged: the operator's weight multiplies the raw score. */
  | 'none'
  /** 10 · (s − least of the scale) / (largest − least of the scale). Needs {@link Scale.between}. */
  | 'range'
  /** 10 · s / the largest of the call; 0 when that is not positive. */
  | 'max'
  /** 10 · (s − least of the call) / (largest − least of the call); 0 when they are equal. */
  | 'minMax';

interface VerbFields {
  readonly isWholeSet: boolean;
  readonly hasSideEffects: boolean;
  readonly isPure: boolean;
  readonly declared: Reads;
}

/** How a verb or a hook is called. */
export abstract class Called {
  /** @internal */
  abstract with(change: Partial<VerbFields>): this;

  /**
   * The answer for a node is a function of args, the pod's facts and that node: it may be cached. By far the fastest. Not
   * with `wholeSet`, nor for a verb that reads JSON or the pod's identity, and never with `sideEffects`; not for a policy
   * that uses the time, or anything outside that its revision does not name. A pure {@link Info.beforeScore} changes nodes
   * alone.
   */
  pure(): this {
    return this.with({ isPure: true });
  }

  /**
   * What the verb reads of pods and nodes: this is sent, and nothing else can be read. Default: nothing. Scores come in
   * one round with the verdicts only if both verbs read the same.
   */
  reads(reads: Reads): this {
    return this.with({ declared: reads.copy() });
  }
}

/**
 * How a verb is called. The default suits most policies: each node on its own, and again for each call. A verb does not
 * change: each method returns another one.
 */
export class Verb extends Called {
  private constructor(
    /** @internal */
    readonly fields: VerbFields,
  ) {
    super();
  }

  /** The answer about a node depends on the pod and that node alone. */
  static perNode(): Verb {
    return new Verb({
      isWholeSet: false,
      hasSideEffects: false,
      isPure: false,
      declared: new Reads(),
    });
  }

  /**
   * The answer depends on all nodes of the request ("at most three of them"): the policy is called after those before
   * it, with the nodes that they left. Costs a separate round for each pod.
   */
  static wholeSet(): Verb {
    return Verb.perNode().with({ isWholeSet: true });
  }

  /**
   * A call changes something outside (a reservation, a quota): the policy is called in turn, only with the nodes that
   * really remain, and only when kube-scheduler is deciding. Calls for any other purpose are rejected before they reach
   * the policy.
   */
  sideEffects(): this {
    return this.with({ hasSideEffects: true });
  }

  /** The same reading all that it can declare; see {@link Info.readingEverything}. @internal */
  readingEverything(): this {
    const { declared, isPure } = this.fields;
    return this.with({ declared: declared.withAll(isPure) });
  }

  /** @internal */
  override with(change: Partial<VerbFields>): this {
    return new Verb({ ...this.fields, ...change }) as this;
  }
}

interface ScaleFields {
  readonly bounds: { readonly min: number; readonly max: number } | undefined;
  readonly normalization: Normalization;
  readonly isReversed: boolean;
}

/** What the policy's scores mean. */
export class Scale {
  private constructor(
    /** @internal */
    readonly fields: ScaleFields,
  ) {}

  /**
   * Scores from the least to the largest, both included, integers of 32 bits; a larger least one is a {@link DeclarationError}. The
   * gateway clamps scores outside this range, and counts them; {@link NO_OPINION} is none of them.
   */
  static between(min: number, max: number): Scale {
    return new Scale({ ...Scale.unbounded().fields, bounds: { min, max } });
  }

  /** Any scores. */
  static unbounded(): Scale {
    return new Scale({ bounds: undefined, normalization: 'none', isReversed: false });
  }

  /** How raw scores become 0 to 10. Default: `none`. */
  normalize(normalization: Normalization): Scale {
    return new Scale({ ...this.fields, normalization });
  }

  /** The least raw score is the best. Only with a normalization. */
  reversed(): Scale {
    return new Scale({ ...this.fields, isReversed: true });
  }
}

/** What an {@link Info} has collected. */
export interface InfoFields {
  readonly name: string;
  readonly version: string;
  /** Undefined: that of the program. */
  readonly revision: string | undefined;
  readonly rejectedConfiguration: string;
  readonly scale: Scale | undefined;
  /** Verbs and hooks: a verb changes nothing. */
  readonly served: ReadonlyMap<VerbName, HookFields>;
  readonly nodeTable: boolean;
  readonly observesOutcomes: boolean;
  readonly shown: readonly Shown[];
}

/**
 * What a policy is, and which data it needs. A verb that is not declared here is never called. An info does not change:
 * each method returns another one.
 *
 * ```ts
 * const onlyFilters = new Info('no-arm', '1.0.0').filters(Verb.perNode().pure().reads(reads));
 * const onlyScores = new Info('near', '1.0.0').scores(Verb.perNode().reads(reads), Scale.between(0, 10));
 * ```
 */
export class Info {
  /** @internal */
  readonly fields: InfoFields;

  /**
   * A policy that serves nothing yet. The name is what the policy calls itself, such as "label-rules"; the version is
   * that of the program. Neither may be empty; at most 63 and 64 bytes.
   */
  constructor(
    name: string,
    version: string,
    /** Made by the methods below. */
    fields?: InfoFields,
  ) {
    this.fields = fields ?? {
      name,
      version,
      revision: undefined,
      rejectedConfiguration: '',
      scale: undefined,
      served: new Map(),
      nodeTable: true,
      observesOutcomes: false,
      shown: [],
    };
  }

  /**
   * Names everything that the answers depend on besides the request: code, rule files and what the time decides, not the
   * operator's args. At most 64 bytes. Default: the version and a digest of the main script and the scripts in its folder,
   * which is right for a policy that reads nothing else and has no code of its own in other folders.
   */
  revision(revision: string): Info {
    return this.with({ revision });
  }

  /**
   * Says why a configuration of the policy's own, such as a changed rule file, is not used, in one line for operators:
   * the gateway's `status` shows it. At most 1,024 bytes are sent.
   */
  rejectedConfiguration(why: string): Info {
    return this.with({ rejectedConfiguration: why });
  }

  /** The policy rejects nodes. */
  filters(verb: Verb): Info {
    return this.serving('Filter', verb);
  }

  /** The policy scores nodes, on this scale. */
  scores(verb: Verb, scale: Scale): Info {
    return this.with({ scale }).serving('Score', verb);
  }

  /**
   * The policy decides which pods may be evicted to make room. Not a pure verb: its answer depends on the victims, too.
   * Facts of nodes, all but their names, need a gateway that watches them: a policy that looks at pods declares none.
   */
  preempts(verb: Verb): Info {
    return this.serving('Preempt', verb);
  }

  /**
   * The policy binds pods, and reads this of them, besides namespace, name, UID and node, which {@link BindAsk} has in
   * any case. There are no nodes to read.
   */
  binds(reads = new Reads()): Info {
    return this.serving('Bind', Verb.perNode().reads(reads));
  }

  /**
   * The policy changes what all backends of a call are told about the pod before they filter. It is not told about
   * nodes. A change holds for this call alone, and kube-scheduler does not see it.
   */
  beforeFilter(hook: Hook): Info {
    return this.serving('BeforeFilter', hook.fields.verb, hook.fields.changes);
  }

  /** The same for nodes: after {@link beforeFilter} of all backends, with the pod as that has left it. */
  beforeFilterNodes(hook: Hook): Info {
    return this.serving('BeforeFilterNodes', hook.fields.verb, hook.fields.changes);
  }

  /**
   * The policy changes what all backends are told about the pod and nodes before they score. Nothing is left of the
   * changes before filter.
   */
  beforeScore(hook: Hook): Info {
    return this.serving('BeforeScore', hook.fields.verb, hook.fields.changes);
  }

  /**
   * Nodes come with each call in full. Without this, a policy that reads more of nodes than their names holds them, some kilobytes of memory for
   * each, and receives only changes.
   */
  withoutNodeTable(): Info {
    return this.with({ nodeTable: false });
  }

  /**
   * The policy is told how attempts to place the pods ended about which it was asked for a decision, by filter or bind: see
   * {@link Policy.observe}. For a policy with side effects, such as a reservation, that it undoes.
   */
  observesOutcomes(): Info {
    return this.with({ observesOutcomes: true });
  }

  /**
   * The policy shows people a part of its state. The gateway serves the path below `/apis/v1/plugins/BACKEND` of its
   * admin address, to everybody who may read that: show no secrets. Segments are letters, digits, "-", ".", "_" and "~",
   * or a parameter, a colon with a name. The description is one line. Both have at most 256 bytes; at most 64 paths.
   *
   * ```ts
   * info.shows('/quotas/:namespace', 'the quota of a namespace', ({ parameters }) => this.quota(parameters.namespace));
   * ```
   *
   * The function may be `async`. It returns what `JSON.stringify` writes, at most 4 MiB of it; maps become objects, sets
   * lists, and a `bigint` that is no exact number a text. It throws {@link NotFound}, {@link InvalidParameter} or
   * {@link NotReady}. It must be free of side effects, and is called also while the policy is not ready.
   */
  shows<Path extends string>(
    path: Path,
    description: string,
    show: (ask: IntrospectAsk<ParameterOf<Path>>) => unknown,
  ): Info {
    return this.with({ shown: [...this.fields.shown, new Shown(path, description, show)] });
  }

  /**
   * The same with all in the declarations that can be: everything is sent, and the counts of pods that were declared.
   * @internal
   */
  readingEverything(): Info {
    const served = [...this.fields.served].map(
      ([name, { verb, changes }]) => [name, { verb: verb.readingEverything(), changes }] as const,
    );
    return this.with({ served: new Map(served) });
  }

  private serving(name: VerbName, verb: Verb, changes: readonly ChangedPart[] = []): Info {
    return this.with({ served: new Map(this.fields.served).set(name, { verb, changes }) });
  }

  private with(change: Partial<InfoFields>): Info {
    const fields = { ...this.fields, ...change };
    return new Info(fields.name, fields.version, fields);
  }
}
