/**
 * From a request to an answer, without sockets: fulfills what the contract requires of a backend, so that a policy does
 * not have to.
 */

import type { Backend, Prepared, Versions } from './backend.js';
import { NODES, POD } from './calls.js';
import { bindAsk, Candidate } from './candidate.js';
import type { Terms } from './declaration.js';
import type { VerbName } from './declaration/names.js';
import { CallError } from './errors.js';
import { GetInfoRequest, type GetInfoResponse } from './gen/extender/policy/v1beta1/info.js';
import type { Pod as PodMessage } from './gen/extender/policy/v1beta1/pod.js';
import {
  BindOutcome,
  BindRequest,
  type BindResponse,
  Call,
  type FilterResponse,
  Miss,
  type PreemptResponse,
  Purpose,
  type Rejection,
  RejectionKind,
  type Result,
  type ScoreResponse,
  type Scores,
} from './gen/extender/policy/v1beta1/policy.js';
import { BIND_MESSAGE_BYTES, RULE_BYTES } from './limits.js';
import { Node } from './node.js';
import { Pod, podMismatch, topologyMismatch } from './pod.js';
import { Access } from './reads/access.js';
import {
  decode,
  decoding,
  readCall,
  readHook,
  readQuestion,
  type NodesRequest,
  type Question,
  type QuestionVerb,
  type TableNodes,
} from './request.js';
import type { Row } from './row.js';
import { BIND, checkSize, GET_INFO, type Shape } from './size.js';
import { readRow, type Table, type Tables } from './table.js';
import { cut } from './text.js';
import { Bind, Eviction, NO_OPINION, Verdict } from './verdict.js';

/** The longest reason. The gateway shows 200 bytes of it, and accepts an answer of 1 KiB per node. */
const MAX_REASON_BYTES = 900;

/** In `NodeRef.ids`, the place of the next inline row. */
const INLINE = 0;

const INT32_MIN = -(2 ** 31);
const INT32_MAX = 2 ** 31 - 1;

/** A response without its result. */
export type Decision<R> = Omit<R, 'result'>;

/** How requests of a verb are answered. */
export interface Answering<D> {
  /** What takes memory in a request. */
  readonly shape: Shape;
  readonly none: D;
  /** Rejects what is invalid for this verb alone, also while the policy is not ready. */
  readonly check?: (asked: Asked) => void;
  readonly decide: (asked: Asked) => D;
}

/** Notes what is known of the call: attributes of its span, and what its log lines have. */
export type Note = (key: string, value: string | number) => void;

/** The answer to the handshake. */
export function answerInfo(backend: Backend, message: Buffer): GetInfoResponse {
  const request = decoding(() => {
    checkSize(message, GET_INFO);
    return decode(GetInfoRequest, message);
  });
  return backend.policyFor(request.args).declaration.response;
}

/** A request that can be answered. */
export interface Asked {
  readonly prepared: Prepared;
  readonly terms: Terms;
  readonly pod: Pod;
  readonly nodes: readonly Node[];
  readonly question: Question;
  readonly note: Note;
}

/** Which of the nodes the pod may not run on; with scores if they are wanted and may be given. */
export function filtered(asked: Asked): Decision<FilterResponse> {
  const { prepared, pod, nodes, question, note } = asked;
  const verdicts = counted('filterAll', prepared.policy.filterAll(pod, nodes), nodes.length);
  const rejections = rejectionsOf(verdicts);
  note(
    'extender.nodes.rejected',
    rejections.reduce((sum, { positions }) => sum + positions.length, 0),
  );
  const mayScore = question.wantScores && prepared.declaration.of('Score')?.mayComeWith(asked.terms) === true;
  return { rejections, scores: mayScore ? earlyScores(asked) : undefined };
}

/** How good each of the nodes is. */
export function scored(asked: Asked): Decision<ScoreResponse> {
  return { scores: scoresOf(asked) };
}

/** Binds the pod, or declines. */
export async function answerBind(
  backend: Backend,
  message: Buffer,
  { signal, note }: { readonly signal: AbortSignal; readonly note: Note },
): Promise<BindResponse> {
  const versions = admit(backend, message, 'Bind');
  const request = decoding(() => {
    checkSize(message, BIND);
    return decode(BindRequest, message);
  });
  const { call } = request;
  if (call === undefined) {
    throw CallError.missing('call');
  }
  const prepared = policyFor(backend, versions, { call, verb: 'Bind', note });
  note(POD, `${request.namespace}/${request.name}`);
  const terms = termsOf(prepared, 'Bind');
  checkPurpose(call, true);
  const pod = request.pod && checkedPod(request.pod, terms, call);
  for (const field of ['namespace', 'name', 'uid', 'node'] as const) {
    if (request[field] === '') {
      throw CallError.missing(field);
    }
  }
  if (request.pod !== undefined && pod === undefined) {
    throw CallError.missing('pod.facts');
  }
  checkSamePod(request);
  prepared.policy.ready();
  return bindResponse(await prepared.policy.bind(bindAsk(request, call, pod, signal)));
}

/**
 * Rejects facts about another pod: what a policy decides from them would be done to this one. What the verb does not read
 * is left out.
 */
function checkSamePod({ pod, namespace, name, uid }: BindRequest): void {
  const fields = [
    ['facts.namespace', pod?.facts?.namespace ?? '', namespace],
    ['identity.name', pod?.identity?.name ?? '', name],
    ['identity.uid', pod?.identity?.uid ?? '', uid],
  ] as const;
  for (const [field, told, meant] of fields) {
    if (told !== '' && told !== meant) {
      throw CallError.invalid(`pod.${field} is that of another pod than the one to bind`);
    }
  }
}

function bindResponse(bind: unknown): BindResponse {
  if (!(bind instanceof Bind)) {
    throw CallError.internal('bind returned no Bind; expected Bind.bound, Bind.declined or Bind.notBound');
  }
  if (bind.why === undefined) {
    return { outcome: BindOutcome.BOUND, message: '' };
  }
  const outcome = bind.isDeclined ? BindOutcome.DECLINED : BindOutcome.NOT_BOUND;
  return { outcome, message: cut(bind.why, BIND_MESSAGE_BYTES) };
}

/** A request about a pod, as it is asked. */
export interface Context {
  readonly backend: Backend;
  readonly tables: Tables;
  readonly message: Buffer;
  readonly note: Note;
}

/** Reads a request, and lets a policy answer it, unless its nodes cannot be read here: then the answer is `none`. */
export function answerQuestion<D extends object>(
  verb: QuestionVerb,
  { backend, tables, message, note }: Context,
  { shape, none, check, decide }: Answering<D>,
): D & { result: Result } {
  const versions = admit(backend, message, verb);
  const question = decoding(() => {
    checkSize(message, shape);
    return readQuestion(message, verb);
  });
  const { call } = question;
  if (call === undefined) {
    throw CallError.missing('call');
  }
  const prepared = policyFor(backend, versions, { call, verb, note });
  const terms = termsOf(prepared, verb);
  noteQuestion(question, note);
  checkPurpose(call, terms.hasSideEffects);
  const rows = verb === 'BeforeFilter' ? noRows(question.nodes) : rowsOf(question.nodes, terms, tables);
  const pod = podOf(question.pod, terms, call);
  if (typeof rows === 'number') {
    note('extender.miss', MISS_NAMES[rows] ?? String(rows));
    return { ...none, result: { outcome: { $case: 'miss', value: rows }, revision: '' } };
  }
  const access = new Access(terms.layout.node);
  const nodes = rows.map((row) => new Node(row, access));
  const asked = { prepared, terms, pod, nodes, question, note };
  check?.(asked);
  prepared.policy.ready();
  const decided = decide(asked);
  // The pod is what is evaluated where there are no nodes.
  const evaluated = Math.max(1, nodes.length);
  note('extender.nodes.evaluated', evaluated);
  const { revision } = prepared.declaration.response;
  return { ...decided, result: { outcome: { $case: 'evaluated', value: evaluated }, revision } };
}

/** The pod, as far as it is sent, and the number of nodes. */
function noteQuestion({ pod, nodes }: Question, note: Note): void {
  const names = [pod?.facts?.namespace, pod?.identity?.name].filter(
    (name) => name !== undefined && name !== '',
  );
  if (names.length > 0) {
    note(POD, names.join('/'));
  }
  if (nodes !== undefined) {
    note(NODES, nodes.count);
  }
}

const MISS_NAMES: Readonly<Record<number, string>> = {
  [Miss.FORM_UNKNOWN]: 'MISS_FORM_UNKNOWN',
  [Miss.TABLE_UNKNOWN]: 'MISS_TABLE_UNKNOWN',
  [Miss.TABLE_BEHIND]: 'MISS_TABLE_BEHIND',
};

/** What answers a call. One of a verb that the policy does not declare is not decoded. */
function admit(backend: Backend, message: Buffer, verb: VerbName): Versions {
  const versions = versionsOf(backend, message);
  termsOf(backend.latest(versions), verb);
  return versions;
}

/** The versions of the policy that a request is for. */
export function versionsOf(backend: Backend, message: Buffer): Versions {
  const call = decoding(() => readCall(message));
  return backend.versionsOf(call ?? Call.create());
}

/** Refuses a request of HookService for none of the hooks, but first for args that are not known, as any other request. */
export function refuseHook(backend: Backend, message: Buffer): never {
  versionsOf(backend, message);
  const hook = decoding(() => readHook(message));
  throw hook === 0
    ? CallError.missing('hook')
    : CallError.invalid(`hook is ${String(hook)}, which is no hook; GetInfo lists those that are served`);
}

function termsOf({ declaration }: Prepared, verb: VerbName): Terms {
  const terms = declaration.of(verb);
  if (terms === undefined) {
    throw CallError.notServed(verb);
  }
  return terms;
}

/** The policy for a call, which its trace names. */
function policyFor(
  backend: Backend,
  versions: Versions,
  { call, verb, note }: { readonly call: Call; readonly verb: VerbName; readonly note: Note },
): Prepared {
  note('extender.call.id', call.id);
  note('extender.backend.name', call.backend);
  if (call.cluster !== '') {
    note('extender.cluster.name', call.cluster);
  }
  const prepared = backend.policyReading(versions, call, verb);
  const { name, revision } = prepared.declaration.response;
  note('extender.policy.name', name);
  note('extender.policy.revision', revision);
  return prepared;
}

/** An unknown purpose of a later version is not a decision either. */
export function checkPurpose({ purpose }: Call, onlyDecides: boolean): void {
  if (purpose === Purpose.UNSPECIFIED) {
    throw CallError.invalid('call.purpose is missing');
  }
  if (onlyDecides && purpose !== Purpose.DECIDE) {
    throw CallError.purpose('this policy has side effects and only answers PURPOSE_DECIDE');
  }
}

/** The pod to be placed, which every request about one has. */
function podOf(message: PodMessage | undefined, terms: Terms, call: Call): Pod {
  if (message === undefined) {
    throw CallError.missing('pod');
  }
  const mismatch = topologyMismatch(message, terms.layout.pod);
  if (mismatch !== undefined) {
    throw CallError.invalid(`pod.topology_counts${mismatch}`);
  }
  const pod = checkedPod(message, terms, call);
  if (pod === undefined) {
    throw CallError.missing('pod.facts');
  }
  return pod;
}

/** The pod as a policy may read it; undefined without facts. */
function checkedPod(message: PodMessage, { layout, isPure }: Terms, call: Call): Pod | undefined {
  const mismatch = podMismatch(message, layout.pod);
  if (mismatch !== undefined) {
    throw CallError.invalid(`pod.facts.${mismatch}`);
  }
  return Pod.of(message, new Access(layout.pod, isPure), call);
}

function noRows(nodes: NodesRequest | undefined): readonly Row[] {
  if (nodes !== undefined) {
    throw CallError.invalid('nodes is set; a request with VERB_BEFORE_FILTER has none');
  }
  return [];
}

/**
 * The rows in the order of the request, or why they cannot be read here. Whether the request is valid does not depend on
 * which tables exist.
 */
function rowsOf(nodes: NodesRequest | undefined, terms: Terms, tables: Tables): readonly Row[] | Miss {
  if (nodes === undefined) {
    throw CallError.missing('nodes');
  }
  const { count, form } = nodes;
  if (form === undefined) {
    return Miss.FORM_UNKNOWN;
  }
  if (form.kind === 'rows') {
    checkCount(count, form.rows.length);
    return inlineRows('rows', form.rows, terms);
  }
  checkCount(count, form.ids.length);
  const zeros = form.ids.filter((id) => id === INLINE).length;
  if (zeros !== form.rows.length) {
    throw CallError.invalid(
      `nodes.table.ids has ${String(zeros)} zeros and there are ${String(form.rows.length)} rows; each zero stands for a row`,
    );
  }
  const inline = inlineRows('table', form.rows, terms);
  const table = tableOf(form, terms, tables);
  return table instanceof Object ? namedRows(form.ids, inline, table) : table;
}

function checkCount(count: number, rows: number): void {
  if (count === 0 || count !== rows) {
    throw CallError.invalid(
      `nodes.count is ${String(count)} and there are ${String(rows)} rows; both count the nodes of the request, at least 1`,
    );
  }
}

/** The rows, if they hold what the policy was promised: a node without facts would look like a node without labels. */
function inlineRows(form: 'rows' | 'table', rows: readonly Buffer[], terms: Terms): Row[] {
  return rows.map((encoded, position) => {
    const where = (): string => `nodes.${form}.rows[${String(position)}]`;
    const row = readRow(where, encoded);
    const wrong = row.wrong(terms.layout.row, 'the reads that this policy declares have it');
    if (wrong !== undefined) {
      throw CallError.invalid(`${where()}.${wrong}`);
    }
    return row;
  });
}

/** The table, whose rows are encoded with the declaration of the verb: values of another one could stand for other keys. */
function tableOf({ table: name, atLeast }: TableNodes, terms: Terms, tables: Tables): Table | Miss {
  const table = tables.find(name);
  if (table?.holds.readsKey !== terms.layout.rowsKey) {
    return Miss.TABLE_UNKNOWN;
  }
  return table.version < atLeast ? Miss.TABLE_BEHIND : table;
}

function namedRows(ids: readonly number[], inline: readonly Row[], table: Table): readonly Row[] | Miss {
  let next = 0;
  const rows: Row[] = [];
  for (const id of ids) {
    const row = id === INLINE ? inline[next++] : table.row(id);
    if (row === undefined) {
      return Miss.TABLE_BEHIND;
    }
    rows.push(row);
  }
  return rows;
}

/** A policy that answers for more or fewer nodes than the call has cannot be trusted to have matched them. */
export function counted<T>(method: string, answers: readonly T[], asked: number): readonly T[] {
  // A policy may be plain JavaScript.
  const given: unknown = answers;
  if (!Array.isArray(given)) {
    throw CallError.internal(`${method} returned no list; expected one answer per node, and not a promise`);
  }
  if (given.length !== asked) {
    throw CallError.internal(
      `${method} returned ${String(given.length)} answers for ${String(asked)} nodes; expected one per node`,
    );
  }
  return answers;
}

/** The rejected nodes, by all that is said about them, in the order of their first occurrence. */
function rejectionsOf(verdicts: readonly Verdict[]): Rejection[] {
  const groups = new Map<string, Rejection>();
  // Most verdicts are the same few objects.
  const known = new Map<Verdict, Rejection | undefined>([[Verdict.accept, undefined]]);
  let position = 0;
  for (const verdict of verdicts) {
    let group = known.get(verdict);
    if (group === undefined && !known.has(verdict)) {
      group = groupOf(groups, verdict, position);
      known.set(verdict, group);
    }
    group?.positions.push(position);
    position += 1;
  }
  return [...groups.values()];
}

function groupOf(groups: Map<string, Rejection>, verdict: Verdict, position: number): Rejection | undefined {
  if (!(verdict instanceof Verdict)) {
    throw CallError.internal(
      `filter returned no Verdict for position ${String(position)}; expected Verdict.accept or Verdict.reject`,
    );
  }
  const { reason, isUnresolvable, rule, retryAfterSeconds } = verdict;
  if (reason === undefined) {
    return undefined;
  }
  const key = JSON.stringify([reason, isUnresolvable, rule, retryAfterSeconds]);
  let group = groups.get(key);
  if (group === undefined) {
    group = {
      reason: cut(reason, MAX_REASON_BYTES),
      kind: isUnresolvable ? RejectionKind.UNRESOLVABLE : RejectionKind.UNSCHEDULABLE,
      positions: [],
      rule: cut(rule, RULE_BYTES),
      retryAfterSeconds,
    };
    groups.set(key, group);
  }
  return group;
}

function scoresOf({ prepared, pod, nodes }: Asked): Scores {
  const given = counted('scoreAll', prepared.policy.scoreAll(pod, nodes), nodes.length);
  for (const [position, value] of given.entries()) {
    if (!Number.isInteger(value) || value < INT32_MIN || value > INT32_MAX) {
      throw CallError.internal(
        `score returned ${String(value)} for position ${String(position)}; expected an integer of 32 bits`,
      );
    }
  }
  return {
    values: given.map((value) => (value === NO_OPINION ? 0 : value)),
    absent: given.flatMap((value, position) => (value === NO_OPINION ? [position] : [])),
  };
}

/**
 * Scores with the verdicts. If they cannot be given, the gateway requests them in a separate call: these nodes include
 * rejected ones, for which the policy may not expect to be called.
 */
function earlyScores(asked: Asked): Scores | undefined {
  try {
    asked.prepared.policy.ready();
    return scoresOf(asked);
  } catch {
    return undefined;
  }
}

/** Rejects candidates that a policy cannot decide about. */
export function checkCandidates({ terms, nodes, question }: Asked): void {
  const { candidates: given } = question;
  if (given.length !== nodes.length) {
    throw CallError.invalid(
      `nodes.count is ${String(nodes.length)} and there are ${String(given.length)} candidates; each node has one`,
    );
  }
  const empty = given.findIndex(({ victims, placeholder }) => victims.length === 0 && !placeholder);
  if (empty !== -1) {
    throw CallError.invalid(
      `candidates[${String(empty)}] has no victims and is no placeholder; expected one of them`,
    );
  }
  checkVictims(question, terms);
}

/** Which pods may be evicted on which of the nodes. */
export function preempted({ prepared, terms, pod, nodes, question }: Asked): Decision<PreemptResponse> {
  const access = new Access(terms.layout.pod);
  const candidates = question.candidates.flatMap((candidate, position) => {
    const node = nodes[position];
    return node === undefined ? [] : [new Candidate(node, candidate, access)];
  });
  const evictions = counted('preemptAll', prepared.policy.preemptAll(pod, candidates), candidates.length);
  const kept = evictions.flatMap((eviction, position) => {
    const victims = victimsOf(eviction, position, candidates[position]?.victims.length ?? 0);
    return victims === undefined ? [] : [{ position, victims, addedUids: [] }];
  });
  return { kept };
}

function checkVictims({ candidates }: Question, { layout }: Terms): void {
  candidates.forEach(({ victims }, candidate) => {
    victims.forEach(({ pod }, victim) => {
      const mismatch = pod && podMismatch(pod, layout.pod);
      if (mismatch !== undefined) {
        const path = `candidates[${String(candidate)}].victims[${String(victim)}].pod`;
        throw CallError.invalid(`${path}.facts.${mismatch}`);
      }
    });
  });
}

/** The positions of the pods to evict; undefined if the node is no longer a candidate. */
function victimsOf(eviction: Eviction, position: number, there: number): number[] | undefined {
  if (!(eviction instanceof Eviction)) {
    throw CallError.internal(
      `preempt returned no Eviction for position ${String(position)}; expected Eviction.all, Eviction.spare or Eviction.only`,
    );
  }
  const { victims } = eviction;
  if (victims === 'spare') {
    return undefined;
  }
  if (victims === 'all') {
    return Array.from({ length: there }, (_, victim) => victim);
  }
  const sorted = victims.toSorted((a, b) => a - b);
  const isRight = sorted.every(
    (victim, at) => Number.isInteger(victim) && victim >= 0 && victim < there && victim !== sorted[at - 1],
  );
  if (!isRight || sorted.length === 0) {
    throw CallError.internal(
      `preempt returned victims [${sorted.join(', ')}] for position ${String(position)}, which has ${String(there)}; expected each at most once, at least one victim, or Eviction.spare`,
    );
  }
  return sorted;
}
