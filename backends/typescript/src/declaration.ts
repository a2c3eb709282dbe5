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
  NodeView,
  Normalization as NormalizationNumber,
  Scope,
  Verb as VerbNumber,
  VerbInfo,
} from './gen/extender/policy/v1beta1/info.js';
import type { Shown } from './introspection.js';
import type { Info, Normalization, Scale, Verb, View } from './info.js';
import { REJECTED_CONFIGURATION_BYTES } from './limits.js';
import type { Layout } from './reads/layout.js';
import { NODE_PARTS } from './reads/parts.js';
import type { RowCounts, RowParts } from './row.js';
import { cut, quoted } from './text.js';

/** The package of the contract that this package implements. */
const API_VERSION = 'extender.policy.v1beta1';

/** The service that fills node tables. */
export const NODE_TABLE_SERVICE = 'extender.policy.v1beta1.NodeTableService';

/** The service that shows people a part of the policy's state. */
const INTROSPECTION_SERVICE = 'extender.policy.v1beta1.IntrospectionService';

/** The service with the hooks. */
export const HOOK_SERVICE = 'extender.policy.v1beta1.HookService';

/** The largest message in bytes, in both directions: 5,000 nodes with their JSON nearly fit. */
export const MAX_MESSAGE_BYTES = 64 << 20;

/** The views in ascending order: each adds to the one before. */
const VIEWS: readonly View[] = ['name', 'facts', 'factsAndRaw'];

const VIEW_NUMBERS = {
  name: NodeView.NAME,
  facts: NodeView.FACTS,
  factsAndRaw: NodeView.FACTS_AND_RAW,
} as const;

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

/** The view with this number in the contract. */
export function viewOf(number: number): View | undefined {
  return VIEWS.find((view) => VIEW_NUMBERS[view] === number);
}

const HOOKS = (Object.keys(VERB_NUMBERS) as VerbName[]).filter(isHook);

/** The hook with this number in the contract. */
export function hookOf(number: number): HookName | undefined {
  return HOOKS.find((name) => VERB_NUMBERS[name] === number);
}

/** Whether rows of one view hold everything that the other one needs. */
export function viewCovers(holds: View, wanted: View): boolean {
  return VIEWS.indexOf(holds) >= VIEWS.indexOf(wanted);
}

/** What each row must have, in this view with these declared parts; undefined: everything that the view has. */
export function rowParts(
  view: View,
  reads: { readonly parts: readonly number[]; readonly isEmpty: boolean } | undefined,
): RowParts {
  if (view === 'name') {
    return { name: true, facts: false };
  }
  return { name: reads?.parts.includes(NODE_PARTS.name) ?? true, facts: !(reads?.isEmpty ?? false) };
}

/** The digest of no declaration. */
const UNDECLARED = Buffer.alloc(0);

/** What a verb's declaration means for a call. */
export class Terms {
  /** The verb's view of each node. */
  readonly view: View;
  readonly hasSideEffects: boolean;
  readonly isPure: boolean;
  readonly wantsUsage: boolean;
  /** What is read of pods and nodes; undefined: everything. */
  readonly layout: Layout | undefined;
  /** What each row of a request must have. */
  readonly rowParts: RowParts;
  /** The number of values of each row of a request; undefined: not known. */
  readonly rowCounts: RowCounts | undefined;
  /** What a hook may change. */
  readonly changes: ReadonlySet<ChangedPart>;
  private readonly isWholeSet: boolean;

  constructor({ fields }: Verb, changes: readonly ChangedPart[] = []) {
    this.changes = new Set(changes);
    const { declared } = fields;
    // Rows without facts are names: no table, and no watch of nodes is needed for them.
    const onlyNames = fields.view === 'facts' && !fields.wantsUsage && declared?.readsNodes === false;
    this.view = onlyNames ? 'name' : fields.view;
    this.hasSideEffects = fields.hasSideEffects;
    this.isPure = fields.isPure;
    this.wantsUsage = fields.wantsUsage;
    this.isWholeSet = fields.isWholeSet;
    this.layout = declared?.layout(this.view === 'name' && !declared.readsNodes);
    const rows = this.layout && { parts: this.layout.rows.parts, isEmpty: this.layout.rowsKey === '' };
    this.rowParts = rowParts(this.view, rows);
    const node = this.layout?.node;
    this.rowCounts = node && {
      labels: node.labels.keys.length,
      annotations: node.annotations.keys.length,
      pods: node.pods.length,
    };
  }

  /** `Call.reads` of the requests that this declaration asks for; empty if nothing is declared. */
  get reads(): Buffer {
    return this.layout?.digest ?? UNDECLARED;
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
      nodeView: VIEW_NUMBERS[this.view],
      scope: this.isWholeSet ? Scope.WHOLE_SET : Scope.NODE,
      effects: this.effects,
      usage: this.wantsUsage,
      reads: this.layout?.message,
      changes: [...this.changes].map((part) => CHANGED_PARTS[part]).toSorted((a, b) => a - b),
    });
  }

  /** As `name`; of the first hook nothing is sent about nodes, because it has none. */
  static of(name: VerbName, { verb, changes }: HookFields): Terms {
    return new Terms(name === 'BeforeFilter' ? verb.view('name') : verb, changes);
  }
}

/** An {@link Info} as the answer to the handshake, and what a call needs of it. */
export class Declaration {
  readonly response: GetInfoResponse;
  /** What the policy shows, by path. */
  readonly shown: ReadonlyMap<string, Shown>;
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
    const terms = [...info.fields.served].map(([name, served]) => [name, Terms.of(name, served)] as const);
    this.terms = new Map(terms.toSorted(([a], [b]) => VERB_NUMBERS[a] - VERB_NUMBERS[b]));
    // Of two equal paths the first.
    this.shown = new Map(info.fields.shown.toReversed().map((entry) => [entry.path, entry]));
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
  const wantsFacts = [...terms.values()].some(({ view }) => view !== 'name');
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
    ],
    verbs,
    podRaw: fields.rawPod,
    annotationPrefixes: [...fields.annotations],
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
    case 'BeforeFilter':
      return { ...info, nodeView: NodeView.UNSPECIFIED };
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
