/**
 * Turns what a policy declares about itself into the contract's handshake. What the contract does not allow to declare is
 * rejected by the gateway, and named by policy-conformance.
 */

import { type HookName, isHook, type VerbName } from './declaration/names.js';
import { programRevision } from './declaration/program.js';
import { DeclarationError } from './errors.js';
import { type ChangedPart, CHANGED_PARTS, type HookFields } from './hook.js';
import type { GetInfoResponse } from './gen/extender/policy/v1beta1/info.js';
import {
  Effects,
  Normalization as NormalizationNumber,
  Scope,
  Verb as VerbNumber,
  VerbInfo,
} from './gen/extender/policy/v1beta1/info.js';
import type { Shown } from './introspection.js';
import type { Info, Normalization, Scale } from './info.js';
import { REJECTED_CONFIGURATION_BYTES } from './limits.js';
import type { Layout } from './reads/layout.js';
import { cut, quoted } from './text.js';

/** The package of the contract that this package implements. */
const API_VERSION = 'extender.policy.v1beta1';

/** The service that fills node tables. */
export const NODE_TABLE_SERVICE = 'extender.policy.v1beta1.NodeTableService';

/** The service that shows people a part of the policy's state. */
const INTROSPECTION_SERVICE = 'extender.policy.v1beta1.IntrospectionService';

/** The service with the hooks. */
export const HOOK_SERVICE = 'extender.policy.v1beta1.HookService';

/** The service that tells the policy of outcomes. */
const OUTCOME_SERVICE = 'extender.policy.v1beta1.OutcomeService';

/** The service that says when the handshake has another answer. */
const WATCH_SERVICE = 'extender.policy.v1beta1.WatchService';

/** The largest message in bytes, in both directions: 5,000 nodes with their JSON nearly fit. */
export const MAX_MESSAGE_BYTES = 64 << 20;

const NORMALIZATION_NUMBERS = {
  none: NormalizationNumber.NONE,
  range: NormalizationNumber.RANGE,
  max: NormalizationNumber.MAX,
  minMax: NormalizationNumber.MIN_MAX,
} as const satisfies Record<Normalization, number>;

const VERB_NUMBERS = {
  Filter: VerbNumber.FILTER,
  Score: VerbNumber.SCORE,
  Preempt: VerbNumber.PREEMPT,
  Bind: VerbNumber.BIND,
  BeforeFilter: VerbNumber.BEFORE_FILTER,
  BeforeFilterNodes: VerbNumber.BEFORE_FILTER_NODES,
  BeforeScore: VerbNumber.BEFORE_SCORE,
} as const satisfies Record<VerbName, number>;

const HOOKS = (Object.keys(VERB_NUMBERS) as VerbName[]).filter(isHook);

/** The hook with this number in the contract. */
export function hookOf(number: number): HookName | undefined {
  return HOOKS.find((name) => VERB_NUMBERS[name] === number);
}

/** The verbs without nodes. */
const ABOUT_PODS: ReadonlySet<VerbName> = new Set(['Bind', 'BeforeFilter']);

/** What a verb's declaration means for a call. */
export class Terms {
  readonly hasSideEffects: boolean;
  readonly isPure: boolean;
  /** What is read of pods and nodes. */
  readonly layout: Layout;
  /** What a hook may change. */
  readonly changes: ReadonlySet<ChangedPart>;
  private readonly isWholeSet: boolean;

  constructor(name: VerbName, { verb: { fields }, changes }: HookFields) {
    this.hasSideEffects = fields.hasSideEffects;
    this.isPure = fields.isPure;
    this.isWholeSet = fields.isWholeSet;
    this.changes = new Set(changes);
    const reads = ABOUT_PODS.has(name) ? fields.declared.withoutNodes() : fields.declared;
    this.layout = reads.layout();
  }

  /** `Call.reads` of the requests that this declaration asks for. */
  get reads(): Buffer {
    return this.layout.digest;
  }

  /** Whether these scores may be given with the verdicts, before the other policies have filtered. */
  mayComeWith(filter: Terms): boolean {
    return !this.isWholeSet && !this.hasSideEffects && this.reads.equals(filter.reads);
  }

  private get effects(): Effects {
    if (this.hasSideEffects) {
      return Effects.CHANGES_OUTSIDE;
    }
    return this.isPure ? Effects.PURE : Effects.READS_OUTSIDE;
  }

  /** The contract's message. */
  verbInfo(verb: VerbNumber): VerbInfo {
    return VerbInfo.fromPartial({
      verb,
      scope: this.isWholeSet ? Scope.WHOLE_SET : Scope.NODE,
      effects: this.effects,
      reads: this.layout.message,
      changes: [...this.changes].map((part) => CHANGED_PARTS[part]).toSorted((a, b) => a - b),
    });
  }
}

/** An {@link Info} as the answer to the handshake, and what a call needs of it. */
export class Declaration {
  readonly response: GetInfoResponse;
  /** What the policy shows, by path. */
  readonly shown: ReadonlyMap<string, Shown>;
  /** Whether the policy is told of outcomes. */
  readonly observesOutcomes: boolean;
  /** In the order of the contract, whatever the order of calls was. */
  private readonly terms: ReadonlyMap<VerbName, Terms>;

  /**
   * Reports what no gateway can reject, because there is nothing to ask it about, with other such mistakes.
   *
   * @throws {DeclarationError}
   */
  constructor(info: Info, others: readonly string[] = []) {
    const found = [...mistakes(info), ...others];
    if (found.length > 0) {
      throw new DeclarationError(found);
    }
    const terms = [...info.fields.served].map(([name, served]) => [name, new Terms(name, served)] as const);
    this.terms = new Map(terms.toSorted(([a], [b]) => VERB_NUMBERS[a] - VERB_NUMBERS[b]));
    // Of two equal paths the first.
    this.shown = new Map(info.fields.shown.toReversed().map((entry) => [entry.path, entry]));
    this.observesOutcomes = info.fields.observesOutcomes;
    this.response = response(info, this.terms);
  }

  /** What a verb declares; undefined if it is not declared. */
  of(verb: VerbName): Terms | undefined {
    return this.terms.get(verb);
  }

  /** Equal for declarations whose requests can be answered with one another. */
  get reads(): string {
    return [...this.terms].map(([name, terms]) => `${name} ${terms.reads.toString('hex')}`).join();
  }
}

function mistakes(info: Info): string[] {
  const { served, scale, shown } = info.fields;
  const found = shown.filter(({ show }) => typeof (show as unknown) !== 'function');
  const bounds = scale?.fields.bounds;
  const isScale = bounds === undefined || [bounds.min, bounds.max].every((bound) => (bound | 0) === bound);
  return [
    ...(served.size > 0
      ? []
      : [
          'no verb is declared; call Info.filters, Info.scores, Info.preempts, Info.binds, or a hook such as Info.beforeFilter',
        ]),
    ...(isScale
      ? []
      : [
          `the scale is ${String(bounds.min)} to ${String(bounds.max)}; expected integers from -2147483648 to 2147483647`,
        ]),
    ...(bounds !== undefined && bounds.min > bounds.max
      ? [
          `Scale.between(${String(bounds.min)}, ${String(bounds.max)}): the least score is larger than the largest`,
        ]
      : []),
    ...[...served].flatMap(([name, { verb }]) => {
      // The contract has one field for both.
      const { isPure, hasSideEffects } = verb.fields;
      return isPure && hasSideEffects
        ? [`${name} is declared with pure() and sideEffects(); only one of them can be true`]
        : [];
    }),
    ...found.map(
      ({ path }) =>
        `the path ${quoted(path)} has no function; give Info.shows one that returns what it shows`,
    ),
  ];
}

function response({ fields }: Info, terms: ReadonlyMap<VerbName, Terms>): GetInfoResponse {
  const verbs = [...terms].map(([name, declared]) => verbInfo(name, declared, fields.scale));
  // Tables are worth filling only if rows hold more than names.
  const wantsFacts = [...terms.values()].some(({ layout }) => layout.row.facts);
  const tables = wantsFacts && fields.nodeTable ? [NODE_TABLE_SERVICE] : [];
  const introspection = fields.shown.map(({ path, description }) => ({ path, description }));
  return {
    name: fields.name,
    version: fields.version,
    revision: fields.revision ?? programRevision(fields.version),
    apiVersion: API_VERSION,
    requires: [],
    services: [
      ...tables,
      ...(introspection.length === 0 ? [] : [INTROSPECTION_SERVICE]),
      ...([...terms.keys()].some(isHook) ? [HOOK_SERVICE] : []),
      ...(fields.observesOutcomes ? [OUTCOME_SERVICE] : []),
      WATCH_SERVICE,
    ],
    verbs,
    maxRequestBytes: BigInt(MAX_MESSAGE_BYTES),
    introspection,
    controllers: undefined,
    rejectedConfiguration: cut(fields.rejectedConfiguration, REJECTED_CONFIGURATION_BYTES),
  };
}

function verbInfo(name: VerbName, terms: Terms, scale: Scale | undefined): VerbInfo {
  const info = terms.verbInfo(VERB_NUMBERS[name]);
  switch (name) {
    case 'Score':
      return { ...info, ...(scale && scaleInfo(scale)) };
    case 'Bind':
      return VerbInfo.fromPartial({ verb: info.verb, reads: info.reads });
    default:
      return info;
  }
}

function scaleInfo({ fields: { bounds, normalization, isReversed } }: Scale): Partial<VerbInfo> {
  return {
    scoreMin: bounds?.min,
    scoreMax: bounds?.max,
    normalization: NORMALIZATION_NUMBERS[normalization],
    reversed: isReversed,
  };
}
